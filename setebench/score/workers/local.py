"""Processes of this computer that carry out tasks. One that dies loses its machine's turn, and is replaced."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

from setebench.errors import SetebenchError
from setebench.score.workers.errand import Reply
from setebench.score.workers.process import Pool
from setebench.score.workers.tasks import Answer, Task, answer_of, errand_of, lost, perform
from setebench.sim.compiled import prepare

Heard = Callable[[Answer], None]


def perform_all(tasks: list[Task], workers: int, heard: Heard, sources: Path | None = None) -> list[Answer]:
    """Answers in the order of the tasks; `heard` is given each as it comes in, one at a time.

    With `sources`, a folder with another version of the package, that version's inference is run. Raises
    `SetebenchError` where it can't be."""
    prepare()  # else every worker would compile the simulator
    if sources is None and min(workers, len(tasks)) <= 1:
        return [_passed_on(perform(task), heard) for task in tasks]
    errands = [msgspec.msgpack.encode(errand_of(task)) for task in tasks]
    answers: dict[int, Answer] = {}
    with Pool(sources) as pool, ThreadPoolExecutor(workers) as threads:
        pending = {threads.submit(pool.ask, wanted): number for number, wanted in enumerate(errands)}
        try:
            for done in as_completed(pending):
                number = pending[done]
                answer = _answer(tasks[number], done.result())
                if sources is not None:
                    _check(answer)
                answers[number] = _passed_on(answer, heard)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            pool.kill()
            raise
    return [answers[number] for number in range(len(tasks))]


def _check(answer: Answer) -> None:
    """Another version that doesn't fit today's simulator has answered nothing, which must not pass for an answer."""
    for failure in answer.failures:
        if failure.unimportable:
            raise SetebenchError(f"the other version can't be run beside today's simulator: {failure.reason}")


def _answer(task: Task, reply: bytes | str) -> Answer:
    """Of an encoded reply, or of how the process ended instead."""
    return lost(task, reply) if isinstance(reply, str) else answer_of(task, msgspec.msgpack.decode(reply, type=Reply))


def _passed_on(answer: Answer, heard: Heard) -> Answer:
    heard(answer)
    return answer
