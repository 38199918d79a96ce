"""Recordings of machines that run compiled loops (`setebench.loops.RunsLoops`): each answer beside what was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.loops.protocol import RunsLoops
from setebench.loops.records import Loop, Policy
from setebench.machine import Machine
from setebench.recording.document import LoopAnswer, Recording
from setebench.recording.recorder import Recorder
from setebench.recording.replay import Replay, other_question


class LoopRecorder(Recorder):
    """A recorder before a machine that runs loops."""

    def __init__(self, machine: Machine) -> None:
        assert isinstance(machine, RunsLoops)
        super().__init__(machine)
        self._runs_loops: RunsLoops = machine
        self._loops: list[LoopAnswer] = []

    def loop_names(self) -> tuple[str, ...]:
        """See `RunsLoops`."""
        names = self._runs_loops.loop_names()
        self._loops.append(LoopAnswer(asked="names", names=names))
        return names

    def describe_loop(self, name: str) -> Loop:
        """See `RunsLoops`."""
        loop = self._runs_loops.describe_loop(name)
        self._loops.append(LoopAnswer(asked=f"description of {name}", loop=loop))
        return loop

    def run_loop(
        self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: int | None = None, seed: int = 1
    ) -> NDArray[np.int64]:
        """See `RunsLoops`."""
        asked = _run_of(name, policies, rounds, cpu, seed)
        try:
            ticks = self._runs_loops.run_loop(name, policies, rounds, cpu=cpu, seed=seed)
        except UnsupportedError as error:
            self._loops.append(LoopAnswer(asked=asked, refusal=str(error)))
            raise
        self._loops.append(LoopAnswer(asked=asked, ticks=ticks.tolist()))
        return ticks

    def check_loop(self, name: str) -> None:
        """See `RunsLoops`. A loop that is wrong ends the run, so only right ones are noted."""
        self._runs_loops.check_loop(name)
        self._loops.append(LoopAnswer(asked=f"check of {name}"))

    def recording(self) -> Recording:
        """Everything so far."""
        return msgspec.structs.replace(super().recording(), loops=self._loops)


class LoopReplay(Replay):
    """A replay of a machine that ran loops."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        self._loops = iter(recording.loops or [])

    def loop_names(self) -> tuple[str, ...]:
        """Those of then."""
        return self._answer("names").names

    def describe_loop(self, name: str) -> Loop:
        """That of then."""
        loop = self._answer(asked := f"description of {name}").loop
        if loop is None:
            raise other_question(asked)
        return loop

    def run_loop(
        self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: int | None = None, seed: int = 1
    ) -> NDArray[np.int64]:
        """The ticks of then."""
        answer = self._answer(_run_of(name, policies, rounds, cpu, seed))
        if answer.refusal:
            raise UnsupportedError(answer.refusal)
        return np.array(answer.ticks, dtype=np.int64).reshape(rounds, len(policies))

    def check_loop(self, name: str) -> None:
        """Those that were right then are."""
        self._answer(f"check of {name}")

    def _answer(self, asked: str) -> LoopAnswer:
        answer = next(self._loops, None)
        if answer is None or answer.asked != asked:
            raise other_question(asked)
        return answer


def recorder_of(machine: Machine) -> Recorder:
    """A recorder with the capabilities of the machine."""
    make: Callable[[Machine], Recorder] = LoopRecorder if isinstance(machine, RunsLoops) else Recorder
    return make(machine)


def replay_of(recording: Recording) -> Replay:
    """A replay with the capabilities of the recorded machine."""
    return Replay(recording) if recording.loops is None else LoopReplay(recording)


def _run_of(name: str, policies: Sequence[Policy], rounds: int, cpu: int | None, seed: int) -> str:
    return f"run of {name}, {rounds} rounds, CPU {cpu}, seed {seed}: {msgspec.json.encode(list(policies)).decode()}"
