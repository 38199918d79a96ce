"""Processes of this computer that carry out tasks, with this version's sources or with another's. One that dies loses
its machine's turn, and is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event

from setebench.errors import SetebenchError
from setebench.score.workers import errand
from setebench.score.workers.tasks import Answer, Task, answer_of, errand_of, lost, perform
from setebench.sim.compiled import prepare

Heard = Callable[[Answer], None]


class Process:
    """One that runs `errand.py`; it ends when its standard input does, so also when this one dies.

    In a session of its own, because an interrupt at the terminal is this process's to handle."""

    def __init__(self, sources: Path | None) -> None:
        """Raises `SetebenchError` where it can't import what it needs."""
        path = [*([str(sources)] if sources else []), *(each or os.getcwd() for each in sys.path)]
        with tempfile.TemporaryFile() as complaints:  # of another version: for a message of one line
            self._popen = subprocess.Popen(
                [sys.executable, "-P", errand.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints if sources else None,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
                start_new_session=True,
            )
            assert self._popen.stdin is not None and self._popen.stdout is not None
            self._to, self._from = self._popen.stdin, self._popen.stdout
            if not self._from.readline():
                complaints.seek(0)
                said = [line for line in complaints.read().decode(errors="replace").splitlines() if line.strip()]
                why = said[-1] if said else self.ending()
                raise SetebenchError(f"a process that runs scenarios can't be started: {why}")

    def ask(self, wanted: bytes) -> bytes:
        """The reply to an errand; empty where the process ended instead."""
        with suppress(BrokenPipeError):
            self._to.write(wanted + b"\n")
            self._to.flush()
        return self._from.readline()

    def ending(self) -> str:
        """Wait until it has ended, and say how."""
        status = self._popen.wait()
        named = {int(each): each.name for each in signal.Signals}
        return named.get(-status, f"exit status {status}")

    def kill(self) -> None:
        """End it now, whatever it does."""
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._to, self._from):
            with suppress(BrokenPipeError):
                pipe.close()


def perform_all(tasks: list[Task], workers: int, heard: Heard, sources: Path | None = None) -> list[Answer]:
    """Answers in the order of the tasks; `heard` is given each as it comes in, one at a time.

    With `sources`, a folder with another version of the package, that version's inference is run. Raises
    `SetebenchError` where it can't be."""
    prepare()  # else every worker would compile the simulator
    answers: dict[int, Answer] = {}
    if sources is None and min(workers, len(tasks)) <= 1:
        for number, task in enumerate(tasks):
            answers[number] = perform(task)
            heard(answers[number])
        return list(answers.values())
    # threads move bytes only: decoding by several at once the first time is not safe (msgspec makes its tables then)
    errands = [errand.to_line(errand_of(task)) for task in tasks]
    every: list[Process] = []
    idle: SimpleQueue[Process] = SimpleQueue()

    ended = Event()

    def ask(wanted: bytes) -> bytes | str:
        if ended.is_set():  # a thread that was between two errands when all processes were ended
            return "the run was ended"
        try:
            process = idle.get_nowait()
        except Empty:
            process = Process(sources)
            every.append(process)
        reply = process.ask(wanted)
        if reply:
            idle.put(process)
        return reply or f"its worker ended: {process.ending()}"

    with ThreadPoolExecutor(workers) as threads:
        pending = {threads.submit(ask, wanted): number for number, wanted in enumerate(errands)}
        try:
            for done in as_completed(pending):
                number = pending[done]
                answers[number] = _answer(tasks[number], done.result(), sources is not None)
                heard(answers[number])
        finally:
            ended.set()
            threads.shutdown(wait=False, cancel_futures=True)
            for process in every:
                process.kill()
    return [answers[number] for number in range(len(tasks))]


def _answer(task: Task, reply: bytes | str, other_version: bool) -> Answer:
    """Of a reply, or of how the process ended instead. Another version that doesn't fit today's simulator has answered
    nothing, which must not pass for an answer."""
    if isinstance(reply, str):
        return lost(task, reply)
    answer = answer_of(task, errand.from_line(reply))
    for failure in answer.failures:
        if other_version and failure.unimportable:
            raise SetebenchError(f"the other version can't be run beside today's simulator: {failure.reason}")
    return answer
