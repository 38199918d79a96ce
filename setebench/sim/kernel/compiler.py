"""How kernel functions are compiled: once each, with the types their annotations say.

Left to itself Numba would compile a helper anew for every constant it is called with, which multiplies minutes. So each
function marked `@compiled` is a lazily compiled Numba function with exactly one signature, read off its annotations
(booleans count as integers); `compile_all` compiles them in the order of definition, callees before callers.

A parameter named `c` is the configuration, which nothing writes while the kernel runs. Loads from it say so, so that a
function does each of them once instead of again behind every store.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, MutableSequence
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.datamodel.models import PointerModel
from numba.core.datamodel.registry import register_default
from numba.extending import intrinsic, lower_builtin

from setebench.sim.kernel.linked import only_linked

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

CONFIGURATION = "c"
"""The name of the parameter that nothing writes."""


class _Constants(types.CPointer):
    """A pointer to integers that stay as they are while the kernel runs."""

    def __init__(self) -> None:
        super().__init__(types.int64)
        self.name = "constants*"


register_default(_Constants)(PointerModel)


@lower_builtin(operator.getitem, _Constants, types.Integer)
def _constant(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    """LLVM for reading one of them."""
    word = builder.load(builder.gep(arguments[0], [arguments[1]]))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@intrinsic
def _fetch(_context: Any, array: Any, index: Any) -> Any:
    def generate(target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, number(0), number(3), number(1)])  # to read, into all caches, data
        return target.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def _high_product(_context: Any, _a: Any, _b: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


LANES = 8
"""Words that the host compares at once: a line of its caches."""


@intrinsic
def _equal_words(_context: Any, array: Any, _index: Any, _shift: Any, _value: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        words = _words(builder, arguments)
        shift, value = (_in_all_lanes(builder, argument) for argument in arguments[2:])
        return _mask(builder, builder.icmp_signed("==", builder.ashr(words, shift), value))

    return types.int64(array, types.int64, types.int64, types.int64), generate


@intrinsic
def _small_words(_context: Any, array: Any, _index: Any, _value: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value = _in_all_lanes(builder, arguments[2])
        return _mask(builder, builder.icmp_signed("<=", _words(builder, arguments), value))

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def _smallest_word(_context: Any, array: Any, _index: Any, _number: Any, _shift: Any, _mask: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        number, shift, mask = (_in_all_lanes(builder, argument) for argument in arguments[2:])
        lanes = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))
        words = builder.or_(builder.and_(builder.shl(_words(builder, arguments), shift), mask), lanes)
        none = ir.Constant(lanes.type, [2**63 - 1] * LANES)
        words = builder.select(builder.icmp_signed("<", lanes, number), words, none)
        kind = ir.FunctionType(ir.IntType(64), [lanes.type])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.smin.v{LANES}i64")
        return builder.call(function, [words])

    return types.int64(array, types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def _first_bit(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


@intrinsic
def _bits_set(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


def _words(builder: Any, arguments: Any) -> Any:
    """The words from an index of an array on."""
    kind = ir.VectorType(ir.IntType(64), LANES)
    pointer = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), kind.as_pointer())
    return builder.load(pointer, align=8)


def _in_all_lanes(builder: Any, value: Any) -> Any:
    words = ir.VectorType(value.type, LANES)
    one = builder.insert_element(ir.Constant(words, ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _mask(builder: Any, lanes: Any) -> Any:
    """Truths as the bits of a number."""
    return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), ir.IntType(64))


fetch = cast("Callable[[Ints, int], None]", _fetch)
"""`fetch(array, index)`: the host brings `array[index]` near, which costs an instruction and changes nothing."""
high_product = cast("Callable[[int, int], int]", _high_product)
"""The upper 64 bits of the product of two unsigned numbers of 64 bits."""
equal_words = cast("Callable[[Ints, int, int, int], int]", _equal_words)
"""`equal_words(array, index, shift, value)`: which of the eight words from `array[index]` on equal `value` when shifted
right, as a mask."""
small_words = cast("Callable[[Ints, int, int], int]", _small_words)
"""`small_words(array, index, value)`: which of the eight words from `array[index]` on are at most `value`, a mask."""
smallest_word = cast("Callable[[Ints, int, int, int, int], int]", _smallest_word)
"""`smallest_word(array, index, number, shift, mask)`: the smallest of the first `number` of eight words from
`array[index]` on, each shifted left, cut by the mask, and with its place, 0 to 7, in the lowest bits."""
first_bit = cast("Callable[[int], int]", _first_bit)
"""The number of the lowest bit that is set, of a word that is not 0."""
bits_set = cast("Callable[[int], int]", _bits_set)
"""How many bits of a word are set."""

F = TypeVar("F", bound=Callable[..., Any])
_HELPER_TYPES = {
    "Ints": types.CPointer(types.int64),
    "Floats": types.CPointer(types.float64),
    "int": types.int64,
    "float": types.float64,
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
    with only_linked():
        for dispatcher in _helpers:
            _compile(dispatcher, _HELPER_TYPES)
    load(main)


def load(main: Any) -> None:
    """Give the entry its signature: from its file where there is one, else by compiling it."""
    _compile(main, _ENTRY_TYPES)


def _compile(dispatcher: Any, names: dict[str, Any]) -> None:
    if not dispatcher.signatures:
        parameters = inspect.signature(dispatcher.py_func).parameters.values()
        dispatcher.compile(tuple(_type_of(parameter, names) for parameter in parameters))
        dispatcher.disable_compile()


def _type_of(parameter: inspect.Parameter, names: dict[str, Any]) -> Any:
    if parameter.name == CONFIGURATION and str(parameter.annotation) == "Ints":
        return _Constants()
    return names[str(parameter.annotation)]
