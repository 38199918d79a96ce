"""The compiled loops: right with every policy, and prefetching what the policy has and nothing else. No times here."""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from iced_x86 import Code, Decoder, FlowControl, Instruction

from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.loops import HINTS, LOOP_NAMES, Policy, RunsLoops
from setebench.native.loops import native_loops
from setebench.native.loops._loops import Version
from setebench.native.loops.native_loops import NativeLoops
from setebench.native.loops.prepared import Memory, Prepared, Size
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


@pytest.mark.parametrize("name", LOOP_NAMES)
def test_the_result_is_the_one_computed_apart_with_every_policy(name: str) -> None:
    hints = [two_stages(pair, *pair_of_hints) for pair in [(2, 9)] for pair_of_hints in itertools.product(HINTS, HINTS)]
    compiler = [Policy(compiler=True)] if loops().compiles(name) else []
    policies = [PLAIN, *hints, *(two_stages(pair) for pair in DISTANCES), *compiler]
    assert loops().differing(name, policies) == []


@pytest.mark.parametrize("name", LOOP_NAMES)
@pytest.mark.parametrize("size", [native_loops.LEAST_BYTES, 16 << 10, 200 << 10])
def test_small_data_are_right_too(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_loops, "CHECKED_BYTES", size)
    assert loops().differing(name, [PLAIN, two_stages((4, 32)), two_stages((32, 4))]) == []


@pytest.mark.parametrize("name", LOOP_NAMES)
def test_a_wrong_result_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build = native_loops.BUILDERS[name]
    monkeypatch.setattr(native_loops, "CHECKED_BYTES", 200 << 10)

    def builds_wrongly(memory: Memory, rng: np.random.Generator, size: Size) -> Prepared:
        prepared = build(memory, rng, size)

        def reference() -> Any:
            expected = prepared.reference()
            wrong = expected.copy()
            wrong[-1] += 1
            return wrong

        return Prepared(**{**vars(prepared), "reference": reference})

    loops().check(name)
    monkeypatch.setitem(native_loops.BUILDERS, name, builds_wrongly)
    with pytest.raises(SetebenchError, match=f"loop {name} is wrong"):
        loops().check(name)


# -- machine code -------------------------------------------------------------------------------------------------


def instructions(address: int) -> list[Instruction]:
    """All that can be reached from an address on without leaving the function."""
    known: dict[int, Instruction] = {}
    waiting = [address]
    while waiting:
        at = waiting.pop()
        if at in known:
            continue
        one = Decoder(64, ctypes.string_at(at, 15), ip=at).decode()
        assert one.code != Code.INVALID
        assert one.flow_control not in (FlowControl.CALL, FlowControl.INDIRECT_CALL, FlowControl.INDIRECT_BRANCH)
        known[at] = one
        if one.flow_control in (FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH):
            waiting.append(one.near_branch_target)
        if one.flow_control not in (FlowControl.UNCONDITIONAL_BRANCH, FlowControl.RETURN):
            waiting.append(at + one.len)
    return list(known.values())


def prefetches(version: Version) -> Counter[str]:
    return Counter(PREFETCHES[one.code] for one in instructions(version.address) if one.code in PREFETCHES)


@pytest.mark.parametrize("loop", range(len(LOOP_NAMES)), ids=LOOP_NAMES)
def test_a_version_has_the_prefetches_of_its_policy_and_no_others(loop: int) -> None:
    for l1_hint, l2_hint in itertools.product(range(len(HINTS) + 1), repeat=2):
        wanted = {HINTS[hint - 1] for hint in (l1_hint, l2_hint) if hint}
        assert set(prefetches(Version(loop, l1_hint, l2_hint))) == wanted, (l1_hint, l2_hint)


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


def test_what_is_asked_wrongly_is_said(machine: NativeMachine) -> None:
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
