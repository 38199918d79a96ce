"""Tasks in processes of this computer, or on a Dask cluster. A worker that dies loses its machine's turn alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed as completed
from typing import Any

import msgspec

from setebench.errors import SetebenchError, reason
from setebench.fleet.run import connected
from setebench.score.seeds import sources_hash
from setebench.score.tasks import Answer, Task, perform
from setebench.sim.compiled import prepare

Received = Callable[[Answer], None]
"""Is given each answer as it comes in, one at a time."""


def perform_all(tasks: list[Task], workers: int, received: Received) -> list[Answer]:
    """Answers in the order of the tasks."""
    prepare()  # else every worker would compile the simulator
    answers: dict[int, Answer] = {}
    if min(workers, len(tasks)) <= 1:
        for number, task in enumerate(tasks):
            answers[number] = perform(task)
            received(answers[number])
        return list(answers.values())
    with ThreadPoolExecutor(workers) as threads:
        pending = {threads.submit(_apart, task): number for number, task in enumerate(tasks)}
        try:
            for done in completed(pending):
                answers[pending[done]] = done.result()
                received(done.result())
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return [answers[number] for number in range(len(tasks))]


def _apart(task: Task) -> Answer:
    """The answer of a process of its own, or how that ended instead."""
    command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)}
    wanted = msgspec.msgpack.encode(task)
    done = subprocess.run(command, input=wanted, stdout=subprocess.PIPE, env=environment, check=False)
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit status {done.returncode}"
        return Answer(machine=task.machine, lost=f"its worker ended: {how}")
    return msgspec.msgpack.decode(done.stdout, type=Answer)


def main() -> None:
    """Carry out the task on standard input, and answer on standard output. Whatever a scenario prints goes to standard
    error."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt at the terminal is the other process's to report
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as reply:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        reply.write(msgspec.msgpack.encode(perform(msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Task))))


# -- on a Dask cluster ------------------------------------------------------------------------------------------------


def perform_on(address: str, tasks: list[Task], received: Received) -> list[Answer]:
    """As `perform_all`, on the cluster whose scheduler has that address: Dask gives the tasks of a worker that dies to
    another one, and gives up on a task that has cost several of them.

    Raises what `connected` raises, and `SetebenchError` where a worker has another version of this package."""
    prepare()  # workers of this computer share the compiled simulator
    with connected(address) as client:
        from distributed import as_completed

        arriving: Any = as_completed  # whose types depend on whether the extra is installed
        # pure=False: a task is carried out again, never answered from what the cluster remembers of an earlier run
        pending = {client.submit(_checked, task, sources_hash(), pure=False): task for task in tasks}
        answers = {}
        try:
            for future in arriving(list(pending), loop=client.loop):
                task = pending.pop(future)
                if future.status == "cancelled":  # nobody here has: the scheduler is gone, or was started anew
                    raise SetebenchError(
                        "the Dask scheduler dropped the run; with --answers FILE, --resume FILE goes on"
                    )
                error = future.exception()
                if isinstance(error, SetebenchError):
                    raise error
                # else of a worker that died, or whose computer lacks something
                answers[task] = Answer(machine=task.machine, lost=reason(error)) if error else future.result()
                received(answers[task])
                future.release()  # else the cluster would compute it again where the worker that holds it dies
        except BaseException:
            client.cancel(list(pending))
            raise
    return [answers[task] for task in tasks]


def _checked(task: Task, wanted: str) -> Answer:
    """Runs on a worker. Raises `SetebenchError` where its package is another one."""
    if (own := sources_hash()) != wanted:
        raise SetebenchError(
            f"a worker of the cluster has another version of setebench ({own[:12]}, here {wanted[:12]})"
        )
    return perform(task)
