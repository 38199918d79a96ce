"""Recordings of machines that switch prefetchers and count events: replayed, they do and refuse as the machine did."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pytest
from bare_machine import BareMachine

from setebench.counters.protocol import Count, CountsEvents
from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.loops import Loop, Policy, RunsLoops, Stream
from setebench.machine import (
    BindsMemory,
    BusyTime,
    ComparesNumbers,
    CountsBusyTime,
    CountsCpuTime,
    Difference,
    Facts,
    Machine,
    PrefetcherSwitch,
    Region,
    SwitchesPrefetchers,
    numbers_of,
)
from setebench.probe import Probe, placement_table
from setebench.recording import Recorder, Recording, Replay, recorder_of, replay_of

SWITCHES = (PrefetcherSwitch(name="L1 IP", level=1), PrefetcherSwitch(name="LLC page"))


class Switched(BareMachine):
    """With switches, of which one is refused."""

    def prefetcher_switches(self) -> tuple[PrefetcherSwitch, ...]:
        return SWITCHES

    @contextmanager
    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> Iterator[None]:
        if "LLC page" in names:
            raise UnsupportedError("refused")
        yield


def replayed(recorder: Recorder) -> Replay:
    """By way of a file, as a person would."""
    return replay_of(msgspec.json.decode(msgspec.json.encode(recorder.recording()), type=Recording))


def use(machine: Any, name: str) -> str:
    try:
        with machine.prefetchers_off([name], [0]):
            return "off"
    except UnsupportedError as error:
        return str(error)


def test_a_replay_switches_as_the_machine_did() -> None:
    recorder: Any = recorder_of(Switched())
    assert isinstance(recorder, SwitchesPrefetchers)
    assert recorder.prefetcher_switches() == SWITCHES
    then = [use(recorder, name) for name in ("L1 IP", "LLC page", "L1 IP")]
    replay: Any = replayed(recorder)
    assert replay.prefetcher_switches() == SWITCHES
    assert [use(replay, name) for name in ("L1 IP", "LLC page", "L1 IP")] == then == ["off", "refused", "off"]
    with pytest.raises(SetebenchError, match="no answer to prefetchers off"):
        use(replay, "L1 IP")


# -- recordings of machines that count events ------------------------------------------------------------------------


VALUES = {"load": 12, "store": -(1 << 48) + 3, "mem_read": (1 << 64) - 5, "cycles": 0}
NOP = Probe().start().nop(1).stop()


class Bare:
    """As much of a machine as runs without memory need."""

    facts = Facts(name="bare", kind="test", cpus=(0,), siblings=((0,),), ticks_per_second=1e9)

    def run(self, probe: Probe, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> Any:
        return np.ones((len(placement_table(probe, placements)) - warmup, probe.intervals), dtype=np.int64)


class Counts(Bare):
    """The same, and counts of every size; one event is refused, one has no counter."""

    class Counting:
        def __init__(self, roles: Sequence[str]) -> None:
            self._roles = roles

        def read(self) -> dict[str, Count]:
            return {role: self._count(role) for role in self._roles}

        def _count(self, role: str) -> Count:
            if role == "fb_full":
                return Count(role=role, reason="no counter was free", enabled=7)
            return Count(role=role, value=VALUES[role], enabled=1 << 40, running=9)

    def event_roles(self) -> dict[str, str]:
        return {**dict.fromkeys([*VALUES, "fb_full"], ""), "home_read": "not here"}

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        if "page_fault" in roles:
            raise UsageError("no event for page_fault")
        return tuple((role,) for role in roles)

    @contextmanager
    def count_events(self, roles: Sequence[str]) -> Iterator[Any]:
        if "home_read" in roles:
            raise UnsupportedError("not here")
        yield self.Counting(roles)


def session(machine: Any) -> list[Any]:
    """Whatever a scenario may ask, and the answers."""
    answers: list[Any] = [machine.event_roles()]
    answers.append(machine.event_groups(("load", "store")))
    with machine.count_events((*VALUES, "fb_full")) as counting:
        answers.append(counting.read())
        machine.run(NOP, 3)
        answers.append(counting.read())
    try:
        with machine.count_events(("home_read",)):
            raise AssertionError("it was refused")
    except UnsupportedError as error:
        answers.append(str(error))
    with machine.count_events(("load",)) as counting:
        answers.append(counting.read())
    return answers


def test_a_replay_counts_as_the_machine_did() -> None:
    recorder: Any = recorder_of(Counts())  # type: ignore[arg-type]
    reported = session(recorder)
    assert reported == session(Counts())
    replay = replayed(recorder)
    assert isinstance(recorder, CountsEvents) and isinstance(replay, CountsEvents)
    assert session(replay) == reported
    with pytest.raises(SetebenchError, match="has no answer to count events"), replay.count_events(("load",)):
        pass


# -- machines that can do everything -----------------------------------------------------------------------------------

LOOP = Loop(
    name="own",
    streams=(Stream(name="a", pattern="sequential", bytes_per_iteration=8),),
    cycles_per_iteration=1.0,
    working_set_bytes=64,
    iterations=8,
)


class Able(Switched):
    """Every capability but counting events, which has machines of its own above."""

    def __init__(self) -> None:
        self._memory = np.zeros(512)

    def read_numbers(self, region: Region, first: int = 0, count: int | None = None) -> Any:
        return self._memory[first:][:count].copy()

    def write_numbers(self, region: Region, numbers: Any, first: int = 0) -> None:
        self._memory[first : first + len(numbers)] = numbers

    def allocate_on(self, size: int, page_size: int, node: int) -> Region:
        if node > 1:
            raise UnsupportedError("no such node")
        return self.allocate(size, page_size)

    def node_of(self, region: Region, offset: int) -> int | None:
        return 1

    def busy_time(self) -> BusyTime:
        return BusyTime(passed=1.0, others=0.5, cpus=2)

    def cpu_time(self, cpu: int | None = None) -> tuple[float, float] | None:
        return None if cpu is None else (1.0, 2.0)

    def loop_names(self) -> tuple[str, ...]:
        return ("own",)

    def describe_loop(self, name: str) -> Loop:
        return LOOP

    def run_loop(self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: Any = None, seed: int = 1) -> Any:
        if any(policy.compiler for policy in policies):
            raise UnsupportedError("no compiler")
        return np.arange(rounds * len(policies), dtype=np.int64).reshape(rounds, -1)

    def check_loop(self, name: str) -> None:
        pass


def use_all(machine: Any) -> list[Any]:
    """Something of every capability, and what came of it."""
    here = machine.allocate_on(4096, 4096, 1)
    numbers = numbers_of(machine)
    assert numbers is not None
    numbers.write_numbers(here, np.arange(8.0))
    reported: list[Any] = [here.address, machine.node_of(here, 0), machine.busy_time(), machine.loop_names()]
    assert [machine.cpu_time(1), machine.cpu_time()] == [(1.0, 2.0), None]
    reported += [numbers.first_difference(here, np.arange(8.0)), numbers.first_difference(here, np.zeros(8))]
    reported += [machine.describe_loop("own"), machine.run_loop("own", [Policy()], 2, seed=3).tolist()]
    machine.check_loop("own")
    for refused in (
        lambda: machine.allocate_on(4096, 4096, 9),
        lambda: machine.run_loop("own", [Policy(compiler=True)], 2),
    ):
        with pytest.raises(UnsupportedError) as error:
            refused()
        reported.append(str(error.value))
    return reported


CAPABILITIES = (
    Machine,
    BindsMemory,
    ComparesNumbers,
    CountsBusyTime,
    CountsCpuTime,
    RunsLoops,
    SwitchesPrefetchers,
)


def test_a_recorded_machine_can_do_what_it_can_alone_and_so_can_its_replay() -> None:
    """A capability that a recorder hides changes what `characterize -o` asks."""
    recorder: Any = recorder_of(Able())
    reported = use_all(recorder)
    assert reported[4:6] == [None, Difference(at=1, value=1.0)]
    replay: Any = replayed(recorder)
    assert use_all(replay) == reported
    for machine in (recorder, replay):
        for capability in CAPABILITIES:
            assert isinstance(machine, capability)
    with pytest.raises(SetebenchError, match=r"no answer to check loop .*own"):
        replay.check_loop("own")


def test_a_recorded_machine_can_do_no_more_than_alone() -> None:
    recorder = recorder_of(BareMachine())
    for machine in (recorder, replayed(recorder)):
        assert numbers_of(machine) is None
        assert not any(isinstance(machine, each) for each in (*CAPABILITIES[1:], CountsEvents))
