"""The compiled kernel's file on disk: whether it is there, and whether it still fits the sources.

Numba keeps the compiled `execute` beside its source, or in the user's cache directory where that can't be written. It
only compares the age of the one source file, so a change in any other kernel file is looked for here.
"""

from __future__ import annotations

import sys
from pathlib import Path


def prepare() -> None:
    """Load the compiled kernel, or compile it and say so on stderr in one line. Does nothing the second time."""
    from setebench.sim.kernel import compiler
    from setebench.sim.kernel.execute import execute

    if execute.signatures:
        return
    kept = execute.stats.cache_path  # None where no folder can be written to
    indexes = sorted(Path(kept).glob("execute.execute-*.nbi")) if kept else []
    here = Path(__file__).parent
    sources = [here / "layout.py", here / "events.py", *here.glob("kernel/*.py"), *here.glob("prefetchers/**/*.py")]
    newest_source = max(path.stat().st_mtime for path in sources)
    if indexes and min(path.stat().st_mtime for path in indexes) >= newest_source:
        compiler.load(execute)
        return
    for path in indexes:
        path.unlink(missing_ok=True)
    print("compiling the simulator; this happens once and takes half a minute or less", file=sys.stderr)
    compiler.compile_all(execute)
