"""What else a computer did: as the kernel counts it, between two moments, and in recordings."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from bare_machine import BareMachine
from trees import write_tree

from setebench.experiments.busy import Busy
from setebench.host.activity import wanted_seconds
from setebench.host.tree import Tree
from setebench.machine import BusyTime, CountsBusyTime
from setebench.recording import Recorder, Recording, Replay


class Counting(BareMachine):
    """With answers in turn: seconds passed and others' seconds; None where nobody counts."""

    def __init__(self, *answers: tuple[float, float] | None, cpus: int = 2) -> None:
        super().__init__()
        self._answers, self.cpus = iter(answers), cpus

    def busy_time(self) -> BusyTime | None:
        answer = next(self._answers)
        return answer and BusyTime(passed=answer[0], others=answer[1], cpus=self.cpus)


def written(root: Path, text: str) -> Tree:
    return write_tree(root, {"proc/stat": text})


def test_idle_time_is_not_wanted_and_stolen_time_is(tmp_path: Path) -> None:
    tree = written(tmp_path, "cpu  10 20 30 5000 600 7 8 25 9 9\ncpu0 1 1 1 1 1 1 1 1\ncpu11 9 1 1 1 1 1 1 1\nintr 4\n")
    assert wanted_seconds(tree) == (pytest.approx(100 / os.sysconf("SC_CLK_TCK")), 2)


@pytest.mark.parametrize("text", ["cpu  1 2 3 4\ncpu0 1 2 3 4\n", "cpu  1 2 3 4 5 6 7 8\n", "intr 5\n", ""])
def test_a_kernel_that_does_not_count_tells_nothing(tmp_path: Path, text: str) -> None:
    assert wanted_seconds(written(tmp_path, text)) is None


def test_others_are_counted_from_one_question_to_the_next() -> None:
    machine = Counting((100.0, 50.0), (102.0, 53.0), (112.0, 54.5), (113.0, 54.45), (114.0, 55.0))
    others = Busy(machine)
    told = [others.cpus() for _ in range(4)]
    assert told == [pytest.approx(1.5), 0.0, 0.0, pytest.approx(0.55)]  # a little is what idle computers do


def test_what_an_idle_computer_does_grows_with_it() -> None:
    machine = Counting((0.0, 0.0), (10.0, 9.0), (20.0, 29.0), cpus=128)
    others = Busy(machine)
    assert [others.cpus() for _ in range(2)] == [0.0, pytest.approx(2.0)]


def test_nothing_is_known_where_nobody_counts() -> None:
    assert Busy(BareMachine()).cpus() is None
    others = Busy(Counting((1.0, 0.0), None, (3.0, 0.5), (3.0, 0.5)))
    assert [others.cpus() for _ in range(3)] == [None] * 3


def test_a_recording_answers_as_the_machine_did() -> None:
    recorder = Recorder(Counting((1.0, 0.25), None, (2.0, 1.25)))
    assert isinstance(recorder, CountsBusyTime)
    then = Busy(recorder), Busy(recorder)
    assert then[0].cpus() == pytest.approx(1.0)
    written_down = msgspec.json.decode(msgspec.json.encode(recorder.recording()), type=Recording)
    replay = Replay(written_down)
    now = Busy(replay), Busy(replay)
    assert now[0].cpus() == pytest.approx(1.0)
    assert now[1].cpus() is None  # it was not asked so often then
