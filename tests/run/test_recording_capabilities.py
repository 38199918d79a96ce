"""Recordings of machines whose prefetchers were switched: replayed, they offer and refuse as the machine did."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from bare_machine import BareMachine

from setebench.campaign import Plan
from setebench.errors import SetebenchError, UnsupportedError
from setebench.machine import PrefetcherSwitch, SwitchesPrefetchers
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
