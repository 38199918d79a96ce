"""How kernel functions are compiled: once each, with the types their annotations say.

Left to itself Numba would compile a helper anew for every constant it is called with, which multiplies minutes. So each
function marked `@compiled` is a lazily compiled Numba function with exactly one signature, read off its annotations
(booleans count as integers); `compile_all` compiles them in the order of definition, callees before callers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, MutableSequence
from typing import Any, TypeVar

from numba import njit, types

Ints = MutableSequence[int]
"""In a helper: a bare pointer to 64-bit integers, without bounds or reference counts: no negative index, no slice."""
Floats = MutableSequence[float]
"""In a helper: a bare pointer to floating-point numbers."""
IntArray = Any
"""In the entry: a contiguous array of int64. `Any`, as only Numba knows that its `ctypes` is such a pointer."""
FloatArray = Any
"""In the entry: a contiguous array of float64."""
Table = Any
"""In the entry: a contiguous two-dimensional array of int64."""

F = TypeVar("F", bound=Callable[..., Any])
_HELPER_TYPES = {
    "Ints": types.CPointer(types.int64),
    "Floats": types.CPointer(types.float64),
    "int": types.int64,
    "bool": types.int64,
}
_ENTRY_TYPES = {
    "IntArray": types.Array(types.int64, 1, "C"),
    "FloatArray": types.Array(types.float64, 1, "C"),
    "Table": types.Array(types.int64, 2, "C"),
}
_helpers: list[Any] = []


_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}


def compiled(function: F) -> F:
    """Mark a helper of the kernel."""
    helper: F = _helper(function, **_OPTIONS)
    return helper


def inlined(function: F) -> F:
    """Mark a small helper on the path of every access: it is pasted into its callers."""
    helper: F = _helper(function, forceinline=True, **_OPTIONS)
    return helper


def _helper(function: Callable[..., Any], **options: Any) -> Any:
    dispatcher = njit(**options)(function)
    _helpers.append(dispatcher)
    return dispatcher


def entry(function: F) -> Any:
    """Mark the kernel's entry: the one function called from Python and kept on disk, its helpers inside."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # Numba found no folder that it may write to: the kernel is compiled in every process
        return njit(function)


def compile_all(main: Any) -> None:
    """Compile every helper, then `main`, each with its one signature."""
    for dispatcher in _helpers:
        _compile(dispatcher, _HELPER_TYPES)
    load(main)


def load(main: Any) -> None:
    """Give the entry its signature: from its file where there is one, else by compiling it."""
    _compile(main, _ENTRY_TYPES)


def _compile(dispatcher: Any, names: dict[str, Any]) -> None:
    if not dispatcher.signatures:
        parameters = inspect.signature(dispatcher.py_func).parameters.values()
        dispatcher.compile(tuple(names[str(parameter.annotation)] for parameter in parameters))
        dispatcher.disable_compile()
