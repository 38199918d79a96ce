"""Why compiling the kernel takes half a minute and not five times that.

Numba finishes every function that it compiles: all that the function calls is linked to it, everything is optimized and
turned into machine code. The kernel has two hundred functions, and only its entry is ever called from Python, so for
the others that is done in vain and again with each of their callers. Here they are only linked; the entry is then
optimized once, with all of them in it. The code that comes of it is as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen


def _finish(library: Any) -> None:
    library._finalize_dynamic_globals()
    library._finalized = True


def _nothing(*_arguments: Any) -> None:
    """An environment is noted where a function's machine code lies, and there is none."""


REPLACED: tuple[tuple[Any, str, Callable[..., None]], ...] = (
    (CPUCodeLibrary, "_optimize_final_module", _nothing),
    (CPUCodeLibrary, "_finalize_final_module", _finish),
    (JITCPUCodegen, "set_env", _nothing),
)
"""Steps of Numba that are left out."""


@contextmanager
def only_linked() -> Iterator[None]:
    """What is compiled within can be linked into other functions, but not be called. A Numba whose steps have other
    names compiles as it always does."""
    if not all(hasattr(owner, name) for owner, name, _ in REPLACED):
        yield
        return
    usual = [(owner, name, getattr(owner, name)) for owner, name, _ in REPLACED]
    for owner, name, instead in REPLACED:
        setattr(owner, name, instead)
    try:
        yield
    finally:
        for owner, name, step in usual:
            setattr(owner, name, step)
