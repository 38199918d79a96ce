"""What a machine answered, kept and answered again: the same to the same question, a refusal to any other."""

from __future__ import annotations

import base64
import bz2
import json
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from bare_machine import BareMachine
from scenario_files import MACHINE, Run, Write, runs

from setebench import campaign, store
from setebench.counters.protocol import Count, CountsEvents
from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.machine import (
    Machine,
    PrefetcherSwitch,
    SwitchesPrefetchers,
)
from setebench.probe import Base, Probe
from setebench.recording import Recording, recorder_of, recording_of, replay_of

LINE = Base("line")
LOAD = Probe().start().load(LINE).stop()


class Noisy(BareMachine):
    """Answers at random, never twice the same, and refuses 32-byte loads and large pages."""

    rng = np.random.default_rng(1)

    def run(self, probe: Any, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> Any:
        if any(operation.size == 32 for operation in probe.operations):
            raise UnsupportedError("no such loads")
        count = placements if isinstance(placements, int) else len(placements[LINE])
        return self.rng.integers(-(2**62), 2**62, (count - warmup, probe.intervals))

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Any:
        if page_size > 4096:
            raise UnsupportedError("no large pages")
        return super().allocate(size, page_size)


NOISY = f"{__name__}:Noisy"


def _ask(machine: Machine) -> list[Any]:
    """Some of everything, and what came of it."""
    region = machine.allocate(1 << 16, 4096)
    reported: list[Any] = [region.address, region.size]
    reported.append(machine.run(LOAD, {LINE: region.random_lines(9, 1)}, warmup=2).tolist())
    for refused in (
        lambda: machine.allocate(1 << 21, 1 << 21),
        lambda: machine.run(Probe().start().load(LINE, 32).stop(), {LINE: region.random_lines(3, 1)}),
    ):
        try:
            refused()
        except UnsupportedError as error:
            reported.append(str(error))
    reported.append(machine.run(Probe().start().add(3).stop(), 4).tolist())
    both = machine.run_together({0: LOAD, 1: LOAD}, {LINE: region.random_lines(2, 1)})
    reported.append({cpu: ticks.tolist() for cpu, ticks in both.items()})
    machine.release(region)
    return reported


@pytest.fixture
def kept() -> tuple[list[Any], Recording]:
    recorder = recorder_of(Noisy())
    return _ask(recorder), recorder.recording()


def test_the_same_questions_get_the_same_answers(kept: tuple[list[Any], Recording]) -> None:
    reported, record = kept
    assert reported[3:5] == ["no large pages", "no such loads"]
    through_a_file = msgspec.convert(json.loads(json.dumps(store.plain(record))), type=Recording)
    replay = replay_of(through_a_file)
    assert isinstance(replay, Machine)
    assert _ask(replay) == reported
    assert replay.facts == Noisy().facts


@pytest.mark.parametrize(
    ("probe", "lines", "how"),
    [(LOAD, 9, {"warmup": 1}), (LOAD, 8, {"warmup": 2}), (LOAD.load(LINE), 9, {"warmup": 2})],
)
def test_other_questions_get_none(kept: tuple[list[Any], Recording], probe: Probe, lines: int, how: Any) -> None:
    replay = replay_of(kept[1])
    region = replay.allocate(1 << 16, 4096)
    with pytest.raises(SetebenchError, match=r"has no answer to .*measure again"):
        replay.run(probe, {LINE: region.random_lines(lines, 1)}, **how)


ALLOCATED = zlib.crc32(b"[65536,4096]")


class Able(Noisy):
    """Every capability; one switch, one node and one event are refused."""

    def prefetcher_switches(self) -> tuple[PrefetcherSwitch, ...]:
        return (PrefetcherSwitch(name="L1 IP", level=1), PrefetcherSwitch(name="LLC page"))

    @contextmanager
    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> Iterator[None]:
        if "LLC page" in names:
            raise UnsupportedError("refused")
        yield

    def event_roles(self) -> dict[str, str]:
        return {"load": "", "home_read": "not here"}

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        return (tuple(roles),)

    @contextmanager
    def count_events(self, roles: Sequence[str]) -> Iterator[Any]:
        if "home_read" in roles:
            raise UnsupportedError("not here")
        counts = {role: Count(role=role, value=(1 << 64) - 5, enabled=9) for role in roles}
        yield SimpleNamespace(read=lambda: counts)


def use_all(machine: Any) -> list[Any]:
    """Something of every capability, and what came of it."""
    reported: list[Any] = [machine.prefetcher_switches(), machine.event_roles()]
    with machine.count_events(machine.event_groups(["load"])[0]) as counting:
        reported.append(counting.read())
    for context in (
        lambda: machine.prefetchers_off(["L1 IP"], {0}),
        lambda: machine.prefetchers_off(["LLC page"], {0}),
        lambda: machine.count_events(["home_read"]),
    ):
        try:
            with context():
                reported.append("done")
        except UnsupportedError as error:
            reported.append(str(error))
    return reported


CAPABILITIES = (CountsEvents, SwitchesPrefetchers)


def test_a_recorded_machine_can_do_what_it_can_alone_and_so_can_its_replay() -> None:
    """A capability that a recorder hides would change what `characterize -o` measures."""
    recorder = recorder_of(Able())
    reported = use_all(recorder)
    assert reported[-3:] == ["done", "refused", "not here"]
    replay = replay_of(msgspec.json.decode(msgspec.json.encode(recorder.recording()), type=Recording))
    assert use_all(replay) == reported
    for machine in (recorder, replay):
        assert all(isinstance(machine, each) for each in CAPABILITIES)
    with pytest.raises(SetebenchError, match=r"no answer to event roles"):
        replay.event_roles()


# -- damage ---------------------------------------------------------------------------------------------------------


def _journal(*calls: Any) -> dict[str, bytes]:
    return {"journal": bz2.compress(json.dumps(calls).encode())}


@pytest.mark.parametrize(
    "change",
    [
        {"ticks": b""},
        {"journal": bz2.compress(b"[" + bytes(1 << 26))},
        *(_journal(["allocate", ALLOCATED, answer]) for answer in ([1 << 20, 1 << 50], "x")),
    ],
)
def test_a_damaged_recording_is_refused(kept: tuple[list[Any], Recording], change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the recording is damaged"):
        _ask(replay_of(msgspec.structs.replace(kept[1], **change)))


@pytest.mark.parametrize(
    "change", [{"memory_bytes": 1 << 50}, {"cpus": ()}, {"siblings": ((0,),) * 20_000}, {"ticks_per_second": -1.0}]
)
def test_a_machine_that_there_can_not_be_is_refused(kept: tuple[list[Any], Recording], change: dict[str, Any]) -> None:
    """A scenario takes memory for each of its CPUs, lines and pages."""
    facts = msgspec.structs.replace(kept[1].facts, **change)
    record = store.plain(msgspec.structs.replace(kept[1], facts=facts))
    with pytest.raises(UsageError, match="damaged"):
        replay_of(recording_of({"recording.latency": record}, "latency"))


# -- inferring again ------------------------------------------------------------------------------------------------

ASKING = """
import numpy as np
from setebench.calibration import Calibration
from setebench.probe import Base, Probe


def answer(context):
    line = Base("line")
    context.progress("asking")
    asked = (context.calibration.step_ticks or 0.0) + 1
    context.calibration = Calibration(step_ticks=asked)
    placements = {line: context.rng(1).integers(0, 99, 10 * int(asked)) * 64}
    ticks = context.machine.run(Probe().start().load(line).stop(), placements, cpu=context.cpu)
    context.evidence["mean"] = float(ticks.mean())
    yield Finding(parameter="NAME.l1", value=float(ticks.mean() + 0), unit="cycles")


SCENARIO = Scenario(name="NAME", summary="Asks.", answer=answer, parameters=("NAME.",), order=ORDER)
"""


def _asking(name: str, order: int) -> str:
    return ASKING.replace("NAME", name).replace("ORDER", str(order))


def test_a_whole_run_is_inferred_again_with_what_was_known_in_each_session(scenario_folder: Write) -> None:
    stopping = _asking("third", 3).replace("def answer(context):", "def answer(context):\n    raise KeyboardInterrupt")
    scenario_folder(first=_asking("first", 1), second=_asking("second", 2), third=stopping)
    saved: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        campaign.characterize(NOISY, listener=campaign.Listener(saved=saved.append), raw=True)
    scenario_folder(third=_asking("third", 3))
    document = campaign.carry_out(saved[-1], Noisy(), campaign.Listener(), raw=True)
    assert [step.session for step in campaign.steps_of(document)] == [1, 1, 2]
    said: list[str] = []
    again = campaign.infer(document, campaign.Listener(progress=said.append))
    assert said == ["[1/3] first: asking", "[2/3] second: asking", "[3/3] third: asking"]
    assert again.findings == document.findings and len(again.findings) == 3
    assert [step.state for step in campaign.steps_of(again)] == ["done"] * 3
    assert campaign.infer(again).findings == document.findings, "the answers are still there"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return runs()


def test_the_command(run: Run, scenario_folder: Write) -> None:
    scenario_folder(first=_asking("first", 1))
    assert run("characterize", "-o", "all.json", "--machine", NOISY).exit_code == 0
    assert run("first", "--raw", "-o", "one.json", "--machine", NOISY).exit_code == 0
    assert run("characterize", "--no-raw", "-o", "none.json", "--machine", MACHINE).exit_code == 0
    opened = len(BareMachine.opened)
    for name in ("all.json", "one.json"):
        again = run("infer", name, "--format", "csv", "-q")
        assert again.exit_code == 0
        assert again.stdout == run("show", name, "--format", "csv").stdout
        page = run("report", name).stdout
        carried = base64.b64decode(page.partition("data:application/json;base64,")[2].partition('"')[0])
        assert b'"recording.' not in carried and b"findings" in carried
    assert len(BareMachine.opened) == opened, "no machine is opened"
    assert run("infer", "none.json").exit_code == 2
    scenario_folder(first=_asking("first", 1).replace("0, 99, 10", "0, 99, 11"))
    reported = run("infer", "one.json")
    assert reported.exit_code == 1 and "has other probes; measure again" in reported.stderr
    reported = run("infer", "all.json")
    assert "first failed, so first.* may be missing: the recording has no answer" in reported.stdout
    assert reported.exit_code == 1 and "no scenario could be inferred" in reported.stderr
