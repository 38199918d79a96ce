"""How kernel functions become machine code: `@compiled` and `@inlined` helpers, and the `@entry` that Python calls.

Left to itself Numba would compile a helper anew for every kind of argument that it is called with. So each has one
signature, which its annotations say (booleans count as integers). Numba would also optimize every helper, and again in
each of its callers. Only the entry is ever called from Python, so the others are only linked: that takes half a minute
and not five times that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.cpu import CPUTargetOptions
from numba.core.options import TargetOptions
from numba.extending import intrinsic

from setebench.sim.layout import HOST_LINE_WORDS as LANES

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
HELPERS: list[Any] = []
"""In the order of their definition, callees before callers."""
CPUTargetOptions.noalias = TargetOptions.Mapping("noalias")
"""Numba knows that arguments may have no word in common, but has no name for that option: what was read of the
configuration need not be read again after each write to the state."""


def _helper(function: F, **options: Any) -> F:
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy", "noalias": True}
    HELPERS.append(njit(**options)(function))
    return cast(F, HELPERS[-1])


def compiled(function: F) -> F:
    """Mark a helper of the kernel."""
    return _helper(function)


def inlined(function: F) -> F:
    """Mark a small helper on the path of every access: it is pasted into its callers."""
    return _helper(function, forceinline=True)


def entry(function: Any) -> Any:
    """Mark the function that Python calls, kept on disk with its helpers inside, where Numba finds a folder to keep it
    in."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # there is none: the kernel is compiled in every process
        return njit(function)


def plain(helper: F) -> F:
    """A helper that calls no other as Python runs it, for a few calls from outside."""
    return cast(F, cast(Any, helper).py_func)


# -- what Python has no word for -------------------------------------------------------------------------------------


_instruction: Any = intrinsic
"""Marks a function that generates LLVM, for helpers to call."""


@_instruction
def equal_words(_context: Any, array: Any, _index: Any, _shift: Any, _value: Any) -> Any:
    """Which of the eight words from `array[index]` on equal `value` when shifted right, as a mask."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        shift, value = (_in_all_lanes(builder, argument) for argument in arguments[2:])
        kind = ir.VectorType(ir.IntType(64), LANES)
        pointer = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), kind.as_pointer())
        equal = builder.icmp_signed("==", builder.ashr(builder.load(pointer, align=8), shift), value)
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(array, types.int64, types.int64, types.int64), generate


@_instruction
def first_bit(_context: Any, _word: Any) -> Any:
    """The number of the lowest bit that is set, of a word that is not 0."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


@_instruction
def bring_near(_context: Any, array: Any, _index: Any) -> Any:
    """Have the host bring `array[index]` near, which costs an instruction and changes nothing."""

    def generate(target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, number(0), number(3), number(1)])  # to read, into all caches, data
        return target.get_dummy_value()

    return types.void(array, types.int64), generate


def _in_all_lanes(builder: Any, value: Any) -> Any:
    words = ir.VectorType(value.type, LANES)
    one = builder.insert_element(ir.Constant(words, ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


# -- compiling -------------------------------------------------------------------------------------------------------

_TYPES = {
    "Ints": types.CPointer(types.int64),
    "Floats": types.CPointer(types.float64),
    "int": types.int64,
    "float": types.float64,
    "bool": types.int64,
    "IntArray": types.Array(types.int64, 1, "C"),
    "FloatArray": types.Array(types.float64, 1, "C"),
    "Table": types.Array(types.int64, 2, "C"),
}


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


def compile_helpers() -> None:
    """Compile every helper with its one signature."""
    with only_linked():
        for helper in HELPERS:
            load(helper)


def load(function: Any) -> None:
    """Give a function its signature: the entry from its file where there is one, else by compiling it."""
    if not function.signatures:
        parameters = inspect.signature(function.py_func).parameters.values()
        function.compile(tuple(_TYPES[str(each.annotation)] for each in parameters))
        function.disable_compile()
