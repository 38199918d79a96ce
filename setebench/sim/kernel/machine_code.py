"""How marked kernel functions become machine code: once each, with the types their annotations say.

Left to itself Numba would compile a helper anew for every constant it is called with. So each marked function has one
signature (booleans count as integers), and calls what was made of the functions that it calls. Numba would also
optimize every helper, and again in each of its callers. Only the entry is ever called from Python, so the others are
only linked: that takes half a minute and not five times that.

Nothing writes the configuration, `c`, while the kernel runs. Loads from it say so, so that each is done once.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CellType, FunctionType
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.datamodel.models import PointerModel
from numba.core.datamodel.registry import register_default
from numba.extending import intrinsic, lower_builtin

from setebench.sim.kernel import compiler
from setebench.sim.kernel.compiler import LANES, MARKED
from setebench.sim.kernel.execute import execute


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
def _equal_words(_context: Any, array: Any, _index: Any, _shift: Any, _value: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        words = _words(builder, arguments)
        shift, value = (_in_all_lanes(builder, argument) for argument in arguments[2:])
        return _mask(builder, builder.icmp_signed("==", builder.ashr(words, shift), value))

    return types.int64(array, types.int64, types.int64, types.int64), generate


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
_made: dict[Any, Any] = {}


def _made_of(value: Any) -> Any:
    """What stands for a value that a kernel function names: of a marked function what Numba makes of it."""
    if not isinstance(value, FunctionType):
        return value
    if value.__module__ == compiler.__name__:
        return globals()[f"_{value.__name__}"]
    if value in MARKED and value not in _made:
        _made[value] = njit(**MARKED[value])(_linked(value))
    return _made.get(value, value)


def _linked(function: Any) -> FunctionType:
    """A function of the same code that calls what was made of the functions that it calls."""
    named = ("__name__", "__builtins__", *function.__code__.co_names)
    names = {name: _made_of(function.__globals__[name]) for name in named if name in function.__globals__}
    cells = tuple(CellType(_made_of(cell.cell_contents)) for cell in function.__closure__ or ())
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    copy.__annotations__, copy.__qualname__ = function.__annotations__, function.__qualname__
    return copy


try:
    run: Any = njit(cache=True)(_linked(execute))
except RuntimeError:  # Numba found no folder that it may write to: the kernel is compiled in every process
    run = njit(_linked(execute))
"""`execute` in machine code once it is loaded, kept on disk with its helpers inside: the one that Python calls."""


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


def compile_all() -> None:
    """Compile every helper, then the entry, each with its one signature."""
    with only_linked():
        for function in MARKED:
            _compile(_made_of(function), _HELPER_TYPES)
    load()


def load() -> None:
    """Give the entry its signature: from its file where there is one, else by compiling it."""
    _compile(run, _ENTRY_TYPES)


def _compile(dispatcher: Any, names: dict[str, Any]) -> None:
    if not dispatcher.signatures:
        parameters = inspect.signature(dispatcher.py_func).parameters.values()
        dispatcher.compile(tuple(_type_of(parameter, names) for parameter in parameters))
        dispatcher.disable_compile()


def _type_of(parameter: inspect.Parameter, names: dict[str, Any]) -> Any:
    if parameter.name == "c" and str(parameter.annotation) == "Ints":
        return _Constants()
    return names[str(parameter.annotation)]
