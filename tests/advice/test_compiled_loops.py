"""The compiled loops: right with every policy, and prefetching what the policy has and nothing else. No times here."""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from iced_x86 import Code, Decoder, FlowControl, Instruction

from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.loops import HINTS, LOOP_NAMES, Policy, RunsLoops
from setebench.loops.shapes import shape
from setebench.native.loops import _loops, native_loops
from setebench.native.loops.data import Array, Data, Memory, Prepared, prepare
from setebench.native.loops.native_loops import NativeLoops
from setebench.native.machine import NativeMachine
from setebench.native.prefetchers import NativeSwitches

PLAIN = Policy()
DISTANCES = [(1, 0), (0, 1), (5, 0), (0, 64), (3, 64), (64, 3), (7, 7), (0, 1000), (1000, 1000)]
STREAMS = {"matmul": 1, "spmv": 1, "triad": 3, "stencil": 81, "strided": 1, "hash_join": 1, "tree_search": 1, "list": 1}
PREFETCHES = {
    Code.PREFETCHT0_M8: "t0",
    Code.PREFETCHT1_M8: "t1",
    Code.PREFETCHT2_M8: "t2",
    Code.PREFETCHNTA_M8: "nta",
    Code.PREFETCHW_M8: "w",
}


def loops(hints: tuple[str, ...] = HINTS) -> NativeLoops:
    none = SimpleNamespace(offered=lambda cpu: ())
    return NativeLoops(hints, cast(NativeSwitches, none), lambda: 1.0)


def two_stages(pair: tuple[int, int], l1_hint: str = "t0", l2_hint: str = "t1") -> Policy:
    return Policy(l1_distance=pair[0], l2_distance=pair[1], l1_hint=l1_hint, l2_hint=l2_hint)


# -- results ------------------------------------------------------------------------------------------------------


def _triad(data: Data) -> Array:
    return data.arrays[1] + 3 * data.arrays[2]


def _spmv(data: Data) -> Array:
    y, values, columns, starts, x = data.arrays
    rows = np.repeat(np.arange(len(y)), np.diff(starts))
    return np.bincount(rows, weights=values * x[columns[: len(values)]], minlength=len(y))


def _matmul(data: Data) -> Array:
    _, left, right = data.arrays
    rows, row = data.sizes
    done, exact = data.total // rows * 8, np.zeros((2, row))
    exact[:, :done] = left.reshape(2, rows) @ right.reshape(rows, row)[:, :done]
    return exact.ravel()


def _strided(data: Data) -> Array:
    changed = data.arrays[0].copy()
    changed[::32] ^= (changed[::32] >> np.uint64(data.sizes[0]) & np.uint64(1)) << np.uint64(data.sizes[1])
    return changed


def _tree_search(data: Data) -> Array:
    return np.searchsorted(np.sort(data.arrays[1]), data.arrays[0][: data.total])


EXPECTED = {"triad": _triad, "spmv": _spmv, "matmul": _matmul, "strided": _strided, "tree_search": _tree_search}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_loop_computes_what_it_is_said_to(name: str) -> None:
    memory = Memory()
    prepared = prepare(shape(f"{name}@200K"), memory)
    expected = EXPECTED[name](prepared.data)
    assert np.allclose(loops().result(prepared, PLAIN)[: len(expected)], expected)
    memory.release()


@pytest.mark.parametrize("name", LOOP_NAMES)
@pytest.mark.parametrize("size", ["4K", "16K", "3M"])
def test_no_policy_changes_the_result(name: str, size: str) -> None:
    hints = [two_stages((2, 9), *pair) for pair in itertools.product(HINTS, HINTS)]
    compiler = [Policy(compiler=True)] if _loops.version(0, 0, 0, True) else []
    memory = Memory()
    prepared = prepare(shape(f"{name}@{size}"), memory)
    distances = [pair for pair in DISTANCES if max(pair) <= prepared.data.largest_distance]
    expected = loops().result(prepared, PLAIN)
    assert expected.any()
    for policy in (*hints, *(two_stages(pair) for pair in distances), *compiler):
        assert np.array_equal(loops().result(prepared, policy), expected), policy
    memory.release()


def test_a_wrong_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    own = NativeLoops.result

    def wrong(self: NativeLoops, prepared: Prepared, policy: Policy) -> Array:
        return own(self, prepared, policy) + policy.compiler

    monkeypatch.setattr(native_loops, "CHECKED", "200K")
    loops().check("triad")
    monkeypatch.setattr(NativeLoops, "result", wrong)
    with pytest.raises(SetebenchError, match="loop triad is wrong"):
        loops().check("triad")


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


def test_this_cpu_runs_loops(machine: NativeMachine) -> None:
    assert isinstance(machine, RunsLoops)
    assert machine.loop_names() in (LOOP_NAMES, ())  # none where memory is short
    ticks = machine.run_loop("triad@256K", [PLAIN, two_stages((1, 8))], 4, seed=3)
    assert ticks.shape == (4, 2) and ticks.dtype == np.int64
    assert (ticks > 0).all()


@pytest.mark.parametrize("name", LOOP_NAMES)
def test_a_description_fits_what_the_loop_does(machine: NativeMachine, name: str) -> None:
    loop = machine.describe_loop(f"{name}@256K")
    assert loop.name == f"{name}@256K" and loop.unit
    assert loop.working_set_bytes >= 200 << 10
    assert loop.cycles_per_iteration > 0 and loop.measured_cycles > 0
    assert len(loop.prefetched) == STREAMS[name]
    assert sum(stream.lines_per_iteration for stream in loop.prefetched) >= STREAMS[name]
    assert loop.dependent == (name == "list")


def test_a_wrong_wish_is_refused(machine: NativeMachine) -> None:
    for name in ("quicksort", "triad@", "triad@12X", "triad 3"):
        with pytest.raises(UsageError, match="unknown loop"):
            machine.describe_loop(name)
    for name in ("triad@0", "list@4095", "tree_search@3K"):
        with pytest.raises(UsageError, match="too small: a loop goes through 4096 bytes"):
            machine.run_loop(name, [PLAIN], 1)
    for name in ("matmul@9999G", "spmv@99999999999999999999"):
        with pytest.raises(UnsupportedError, match="MiB are available"):
            machine.describe_loop(name)
    with pytest.raises(UsageError, match="up to 1024"):
        machine.run_loop("list@256K", [Policy(l1_distance=1025)], 1)
    with pytest.raises(UnsupportedError, match="no prefetch w; it has t0"):
        loops(hints=("t0",)).run("list@256K", [Policy(l1_distance=1, l1_hint="w")], 1, 1)
    assert loops(hints=()).run("list@256K", [Policy(l1_hint="w")], 1, 1).shape == (1, 1)
