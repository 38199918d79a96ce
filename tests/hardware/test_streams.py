"""Streams on this CPU: their arithmetic, every number that they could write, and what is refused."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from scenario_files import runs

from setebench.errors import ProbeFault
from setebench.native.machine import NativeMachine
from setebench.native.memory import NativeRegion
from setebench.probe import Base, Probe
from setebench.probe.kernels import ACCUMULATORS, KERNELS, SCALAR, array_spacing, stream_bytes

ARRAYS = Base("arrays")
LIBC = ctypes.CDLL(None, use_errno=True)


EVERY_FORM = [(name, rolled) for name, kernel in KERNELS.items() for rolled in kernel.forms]


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize(("name", "rolled"), EVERY_FORM)
def test_a_kernel_leaves_what_it_should_and_nothing_else(
    native: NativeMachine, name: str, rolled: bool, width: int
) -> None:
    if width not in native.facts.access_sizes or name not in native.facts.kernels:
        pytest.skip("this CPU has no such kernel")
    kernel, size, spacing = KERNELS[name], 1 << 13, array_spacing(1 << 13) // 8
    region = native.allocate(stream_bytes(kernel, size), 4096)
    assert isinstance(region, NativeRegion)
    try:
        memory = region.numbers()
        memory[:] = np.random.default_rng(77).random(len(memory))
        expected = memory.copy()
        arrays = dict(
            zip("abcd", (expected[spacing * number :][: size // 8] for number in range(kernel.arrays)), strict=False)
        )
        left, _, right = kernel.formula.partition(",")[0].replace("[i]", "").partition("= ")
        if "sum" in left:  # partial sums lie behind the first array, in the order in which the kernel adds
            sums = expected[size // 8 :][: ACCUMULATORS * width // 8]
            sums[:] = 0
            for row in eval(right, arrays).reshape(-1, len(sums)):
                sums += row
        elif right:
            arrays["a"][:] = eval(right, {"s": SCALAR, **arrays})
        native.run(Probe().stream(ARRAYS, name, size, width, rolled=rolled).fence(), {ARRAYS: [region.address]})
        assert np.array_equal(memory, expected)
        del memory
    finally:
        native.release(region)


@pytest.mark.parametrize(
    ("name", "rolled"), [("load", False), ("load", True), ("store", False), ("store", True), ("random", False)]
)
def test_a_stream_ends_exactly_at_its_last_block(native: NativeMachine, name: str, rolled: bool) -> None:
    size = 1 << 13
    region = native.allocate(2 * size, 4096)
    beyond = region.address + size
    assert LIBC.mprotect(ctypes.c_void_p(beyond), ctypes.c_size_t(size), 0) == 0
    try:
        probe = Probe().stream(ARRAYS, name, size, rolled=rolled)
        native.run(probe, {ARRAYS: [region.address]})
        with pytest.raises(ProbeFault) as fault:
            native.run(probe, {ARRAYS: [region.address + 256]})
    finally:
        LIBC.mprotect(ctypes.c_void_p(beyond), ctypes.c_size_t(size), 3)
        native.release(region)
    assert beyond <= fault.value.address < beyond + 256


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("bandwidth", "--threads", "many"), "--threads takes numbers"),
        (("loaded-latency", "--threads", "1000"), "1000 loading threads"),
        (("stream", "--size", "100000000"), "--size takes 1 to"),
    ],
)
def test_what_can_not_be_is_refused_in_one_line(arguments: tuple[str, ...], reported: str) -> None:
    ended = runs()(*arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert reported in ended.stderr and ended.stderr.strip().count("\n") == 0
