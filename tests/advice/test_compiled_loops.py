"""The compiled loops: right with every policy, and prefetching what the policy has and nothing else. No times here."""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from iced_x86 import Code, Decoder, FlowControl, Instruction

from setebench.errors import UnsupportedError, UsageError
from setebench.loops import HINTS, LOOP_NAMES, Policy
from setebench.loops.shapes import shape
from setebench.native.loops import _loops
from setebench.native.loops.data import Array, Data, prepare
from setebench.native.loops.native_loops import NativeLoops
from setebench.native.machine import NativeMachine

PLAIN = Policy()
DISTANCES = [(1, 0), (0, 1), (5, 0), (0, 64), (3, 64), (64, 3), (7, 7), (0, 1000), (1000, 1000)]
PREFETCHES = {
    Code.PREFETCHT0_M8: "t0",
    Code.PREFETCHT1_M8: "t1",
    Code.PREFETCHT2_M8: "t2",
    Code.PREFETCHNTA_M8: "nta",
    Code.PREFETCHW_M8: "w",
}


WRITTEN = {"matmul": 0, "spmv": 0, "triad": 0, "stencil": 0, "strided": 0, "tree_search": 2}
"""The array that a loop writes; others return a sum."""


def result(prepared: Data, policy: Policy) -> Array:
    """What a loop writes, or the sums that its passes return, when all of its data are gone through."""
    name, code, sums = prepared.loop.name.partition("@")[0], NativeLoops(HINTS).version(prepared, policy), []
    written = prepared.arrays[WRITTEN.get(name, 0)]
    before = written.copy()
    for number in range(prepared.passes):
        operands = prepared.operands(number * prepared.each, policy)
        _loops.ticks(code, operands.ctypes.data)
        sums.append(operands[-1])
    found = written[: prepared.total if name == "tree_search" else None].copy()
    written[:] = before
    return found if name in WRITTEN else np.array(sums)


def two_stages(pair: tuple[int, int], l1_hint: str = "t0", l2_hint: str = "t1") -> Policy:
    return Policy(l1_distance=pair[0], l2_distance=pair[1], l1_hint=l1_hint, l2_hint=l2_hint)


# -- results ------------------------------------------------------------------------------------------------------


def _tree_search(data: Data) -> Array:
    return np.searchsorted(np.sort(data.arrays[1]), data.arrays[0][: data.total])


def test_a_search_finds_what_it_is_said_to() -> None:
    prepared = prepare(shape("tree_search@200K"))
    expected = _tree_search(prepared)
    assert (result(prepared, PLAIN)[: len(expected)] == expected).all()


@pytest.mark.parametrize("name", LOOP_NAMES)
@pytest.mark.parametrize("size", ["4K", "3M"])
def test_no_policy_changes_the_result(name: str, size: str) -> None:
    hints = [two_stages((2, 9), *pair) for pair in itertools.product(HINTS, HINTS)]
    prepared = prepare(shape(f"{name}@{size}"))
    expected = result(prepared, PLAIN)
    assert expected.any()
    for policy in (*hints, *(two_stages(pair) for pair in DISTANCES)):
        assert np.array_equal(result(prepared, policy), expected), policy


# -- machine code -------------------------------------------------------------------------------------------------


def instructions(address: int) -> list[Instruction]:
    """All that can be reached from an address on without leaving the function."""
    found: dict[int, Instruction] = {}
    waiting = [address]
    while waiting:
        at = waiting.pop()
        if at in found:
            continue
        one = Decoder(64, ctypes.string_at(at, 15), ip=at).decode()
        assert one.code != Code.INVALID
        assert one.flow_control not in (FlowControl.CALL, FlowControl.INDIRECT_CALL, FlowControl.INDIRECT_BRANCH)
        found[at] = one
        if one.flow_control in (FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH):
            waiting.append(one.near_branch_target)
        if one.flow_control not in (FlowControl.UNCONDITIONAL_BRANCH, FlowControl.RETURN):
            waiting.append(at + one.len)
    return list(found.values())


def prefetches(version: int) -> Counter[str]:
    return Counter(PREFETCHES[one.code] for one in instructions(version) if one.code in PREFETCHES)


@pytest.mark.parametrize("loop", range(len(LOOP_NAMES)), ids=LOOP_NAMES)
def test_a_version_has_the_prefetches_of_its_policy_and_no_others(loop: int) -> None:
    for l1_hint, l2_hint in itertools.product(range(len(HINTS) + 1), repeat=2):
        wanted = {HINTS[hint - 1] for hint in (l1_hint, l2_hint) if hint}
        assert set(prefetches(_loops.version(loop, l1_hint, l2_hint))) == wanted, (l1_hint, l2_hint)


# -- running them in turn -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def machine() -> Iterator[NativeMachine]:
    opened = NativeMachine()
    yield opened
    opened.close()


def test_a_wrong_wish_is_refused(machine: NativeMachine) -> None:
    for name, said in (("quicksort", "unknown loop"), ("triad@12X", "unknown loop"), ("list@4095", "too small")):
        with pytest.raises(UsageError, match=said):
            machine.run_loop(name, [PLAIN], 1)
    with pytest.raises(UnsupportedError, match="iB are available"):
        machine.run_loop("matmul@9999G", [PLAIN], 1)
    with pytest.raises(UsageError, match="up to 1024"):
        machine.run_loop("list@256K", [Policy(l1_distance=1025)], 1)
    with pytest.raises(UnsupportedError, match="no prefetch w; it has t0"):
        NativeLoops(("t0",)).run("list@256K", [Policy(l1_distance=1, l1_hint="w")], 1, 1)
    assert NativeLoops(()).run("list@256K", [Policy(l1_hint="w")], 1, 1).shape == (1, 1)
