"""The compiled kernel's file on disk: whether it is there, and whether it still fits the sources.

Numba keeps the compiled `execute` beside its source, or in the user's cache directory where that can't be written. It
only compares the age of the one source file, so a change in any other kernel file is looked for here.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

from setebench.errors import NO_MACHINE_CODE, UnsupportedError


@cache
def prepare() -> Any:
    """Load the compiled kernel, or compile it and say so on stderr in one line; its entry `execute`, to be called.

    Raises `UnsupportedError` where the system lets this process have no machine code of its own making."""
    try:
        from setebench.sim.kernel.compiler import compile_helpers, load
        from setebench.sim.kernel.execute import execute
    except OSError as error:  # as Numba says it while it is imported
        raise UnsupportedError(f"a simulated machine can't be run: {NO_MACHINE_CODE} ({error.strerror})") from error

    kept = execute.stats.cache_path  # None where no folder can be written to
    indexes = sorted(Path(kept).glob("execute.execute-*.nbi")) if kept else []
    here = Path(__file__).parent
    places = ("sim/layout.py", "sim/spec/*.py", "sim/kernel/**/*.py", "sim/prefetchers/**/*.py")
    sources = [path for place in (*places, "probe/*.py", "counters/roles.py") for path in here.parent.glob(place)]
    newest_source = max(path.stat().st_mtime for path in sources)
    if indexes and min(path.stat().st_mtime for path in indexes) >= newest_source:
        load(execute)
        return execute
    for path in indexes:
        path.unlink(missing_ok=True)
    if sys.stderr is not None:
        folder = here / "kernel/__pycache__"
        often = f"at every run, as {folder} can't be written to: set NUMBA_CACHE_DIR to a folder that can"
        print(f"compiling the simulator, half a minute or less, {'once' if kept else often}", file=sys.stderr)
    compile_helpers()
    load(execute)
    return execute
