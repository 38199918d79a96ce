"""Recordings of machines that switch prefetchers and count events: replayed, they do and refuse as the machine did."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pytest
from bare_machine import BareMachine

from setebench.campaign import Plan
from setebench.counters.protocol import Count, CountsEvents
from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.machine import Facts, PrefetcherSwitch, SwitchesPrefetchers
from setebench.probe import Probe, placement_table
from setebench.recording import Recorder, Recording, Replay
from setebench.registry import scenario

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
    return Replay(msgspec.json.decode(msgspec.json.encode(recorder.recording()), type=Recording))


def use(machine: Any, name: str) -> str:
    try:
        with machine.prefetchers_off([name], [0]):
            return "off"
    except UnsupportedError as error:
        return str(error)


def test_a_replay_switches_as_the_machine_did() -> None:
    recorder = Recorder(Switched())
    assert isinstance(recorder, SwitchesPrefetchers)
    assert recorder.prefetcher_switches() == SWITCHES
    then = [use(recorder, name) for name in ("L1 IP", "LLC page", "L1 IP")]
    replay = replayed(recorder)
    assert replay.prefetcher_switches() == SWITCHES
    assert [use(replay, name) for name in ("L1 IP", "LLC page", "L1 IP")] == then == ["off", "refused", "off"]
    with pytest.raises(SetebenchError, match="no answer to the prefetchers L1 IP switched off"):
        use(replay, "L1 IP")


@pytest.mark.parametrize(
    ("name", "options"), [("prefetcher-map", {"no_msr": True}), ("loaded-latency", {"no_msr": True}), ("latency", {})]
)
def test_a_run_of_all_scenarios_forbids_registers_to_those_that_would_write_them(
    name: str, options: dict[str, bool]
) -> None:
    assert Plan(scenarios=(name,), no_msr=True).options(scenario(name)) == options


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
    recorder = Recorder(Counts())  # type: ignore[arg-type]
    reported = session(recorder)
    assert reported == session(Counts())
    replay = replayed(recorder)
    assert isinstance(recorder, CountsEvents) and isinstance(replay, CountsEvents)
    assert session(replay) == reported
    with pytest.raises(SetebenchError, match="has no answer to counts of load"), replay.count_events(("load",)):
        pass


def test_a_machine_that_counts_nothing() -> None:
    recorder = Recorder(Bare())  # type: ignore[arg-type]
    assert recorder.event_roles() == {} == replayed(recorder).event_roles()
    with pytest.raises(UsageError, match="bare counts no events"):
        recorder.event_groups(("load",))


@pytest.mark.parametrize("change", [{"readings": "x"}, {"reasons": ()}, {"readings": "cut"}])
def test_a_damaged_recording_gets_one_line(change: dict[str, Any]) -> None:
    recorder = Recorder(Counts())  # type: ignore[arg-type]
    session(recorder)
    recording = recorder.recording()
    if change.get("readings") == "cut":
        from setebench.recording.packing import packed, unpacked

        change = {"readings": packed([unpacked(recording.events.readings, 1 << 20)[:-1]])}
    damaged = msgspec.structs.replace(recording, events=msgspec.structs.replace(recording.events, **change))
    with pytest.raises(UsageError, match="the recording is damaged"):
        Replay(damaged)
