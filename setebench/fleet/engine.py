"""Measuring nodes on a Dask cluster: each node is asked by name, alone and one thing at a time; one that is slow, dead
or answers nonsense costs itself.

Nothing is ever given to another worker: a node is a question of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from setebench import store
from setebench.errors import SetebenchError, UsageError
from setebench.fleet.launch import Started
from setebench.fleet.measure import describe, measure
from setebench.fleet.plan import Folder, Job, is_safe

CONNECT_SECONDS = 10.0  # how long a scheduler may take to answer; one that is there does in milliseconds
LOOK_SECONDS = 1.0  # time between two looks at who came and who went
ANSWER_SECONDS = 60.0  # a node that says nothing for so long beyond its limit is taken for dead
_DOZE_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How nodes are asked. `by_worker`: each worker is a node, by its name; else each host. `limit_seconds` is for one
    scenario; `at_once` limits the nodes that measure at the same time; `every_seconds` lie between the begins of two
    runs. `expected` are nodes whose workers are still to come, within `wait_seconds`."""

    by_worker: bool = False
    limit_seconds: float = 3600.0
    at_once: int | None = None
    every_seconds: float = 0.0
    expected: Mapping[str, Started] = field(default_factory=dict)
    wait_seconds: float = 0.0


@dataclass(kw_only=True)
class Listener:
    """Who is given a line for what is done next, and for what went wrong."""

    progress: Callable[[str], None]
    problem: Callable[[str], None]


@dataclass(kw_only=True)
class Tally:
    """What came of a run: jobs kept and failed, nodes, and the engine's CPU time beside the measurements' time."""

    kept: int = 0
    failed: int = 0
    nodes: set[str] = field(default_factory=set)
    seconds: float = 0.0
    engine_cpu_seconds: float = 0.0


class _NoAnswerError(Exception):
    """Why a worker returned nothing."""


async def carry_out(address: str, folder: Folder, manner: Manner, listener: Listener) -> Tally:
    """Ask every node of the scheduler at that address what it has not answered yet. Raises `UsageError` where Dask is
    not installed, `SetebenchError` where there is no scheduler, or where it has no workers."""
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError("measuring a fleet needs Dask: pip install 'setebench[cluster]'") from error
    begin: Any = Client
    try:
        client = await begin(address, asynchronous=True, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split())
        raise SetebenchError(f"no Dask scheduler can be reached at {address!r}: {why}") from error
    async with client:
        run = _Run(client, folder, manner, listener)
        await run.to_its_end()
    if not run.tally.nodes:
        raise SetebenchError("the cluster has no workers that could be asked")
    return run.tally


class _Run:
    """The workers of a run (name by address), and what their nodes do."""

    def __init__(self, client: Any, folder: Folder, manner: Manner, listener: Listener) -> None:
        self._client, self._folder, self._manner, self._listener = client, folder, manner, listener
        self._workers: dict[str, str] = {}
        self._busy: set[str] = set()
        self._failed: set[Job] = set()
        self._missing = dict(manner.expected)
        self._places = asyncio.Semaphore(manner.at_once or 1_000_000)
        self._begin = time.monotonic()
        self.tally = Tally()

    async def to_its_end(self) -> None:
        """Look who is there, and ask each worker in a task of its own, until no task and no expected node is left."""
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                await self._look()
                for address, name in self._workers.items():
                    if address not in tasks:
                        tasks[address] = asyncio.create_task(self._serve(address, name))
                running = [task for task in tasks.values() if not task.done()]
                if running:
                    await asyncio.wait(running, timeout=LOOK_SECONDS)
                elif self._still_expected():
                    await asyncio.sleep(LOOK_SECONDS)
                else:
                    break
                for task in tasks.values():
                    if task.done():
                        task.result()
        finally:
            for task in tasks.values():
                task.cancel()

    async def _look(self) -> None:
        try:
            found = await self._client.scheduler.identity(n_workers=-1)
        except TypeError:  # before this argument all were listed
            found = await self._client.scheduler.identity()
        except (OSError, AttributeError) as error:  # a client that has lost its scheduler has none
            raise SetebenchError("the Dask scheduler is gone; the same command goes on later") from error
        self._workers = {address: str(worker.get("name", address)) for address, worker in found["workers"].items()}

    def _still_expected(self) -> bool:
        """Whether a node may still come; says of each once why it doesn't."""
        late = time.monotonic() - self._begin > self._manner.wait_seconds
        for name, ended in list(self._missing.items()):
            why = ended()
            if why is None and late:
                why = f"no worker has come from it within {self._manner.wait_seconds:g} seconds"
            if name in self.tally.nodes or why is not None:
                del self._missing[name]
                if name not in self.tally.nodes:
                    self._listener.problem(f"{name}: {why}")
        return bool(self._missing)

    async def _serve(self, address: str, worker: str) -> None:
        """Ask one worker for its node, and then for all that this node has not answered yet."""
        try:
            reply = await self._answer(address, ANSWER_SECONDS, describe)
        except _NoAnswerError as error:
            self._listener.problem(f"the worker {worker} at {address}: {error}")
            return
        name = worker if self._manner.by_worker or self._manner.expected else str(reply.get("host"))
        if not is_safe(name):
            self._listener.problem(f"a worker at {address} calls its node {name!r}, which can't be a file's name")
            return
        if name in self._busy:
            self._listener.progress(f"{name} has another worker at {address}, which isn't used")
            return
        own = store.this_tool().version
        if reply.get("version") != own:
            self._listener.problem(f"{name} has version {reply.get('version')} of setebench; here it is {own}")
        self.tally.nodes.add(name)
        self._busy.add(name)
        try:
            await self._ask(name, address)
        finally:
            self._busy.discard(name)

    async def _ask(self, name: str, address: str) -> None:
        left = [job for job in self._folder.left(name) if job not in self._failed]
        for number, job in enumerate(left):
            due = self._begin + (job.run - 1) * self._manner.every_seconds
            while time.monotonic() < due and address in self._workers:
                await asyncio.sleep(min(LOOK_SECONDS, max(due - time.monotonic(), 0)))
            if address not in self._workers:  # it may come back with another worker, and then goes on
                self._listener.problem(f"{name}: its worker has gone; {len(left) - number} answers are missing")
                return
            async with self._places:
                await self._measure(job, address)

    async def _measure(self, job: Job, address: str) -> None:
        limit = self._manner.limit_seconds
        self._listener.progress(job.title)
        try:
            request = {**self._folder.request(job), "limit_seconds": limit}
            reply = await self._answer(address, limit + ANSWER_SECONDS, measure, request)
            self.tally.seconds += _number(reply.get("seconds"))
            self.tally.engine_cpu_seconds += _number(reply.get("engine_cpu_seconds"))
            answer = reply.get("answer")
            if not isinstance(answer, bytes):
                raise _NoAnswerError(str(reply.get("error", "it answers something else")))
            self._folder.keep(job, answer)
        except (_NoAnswerError, UsageError) as error:
            self._failed.add(job)
            self.tally.failed += 1
            self._listener.problem(f"{job.title}: {error}")
        else:
            self.tally.kept += 1
            self._listener.progress(f"{job.title}: done")

    async def _answer(self, address: str, seconds: float, function: Callable[..., Any], *given: Any) -> dict[str, Any]:
        """What that worker returns. Raises `_NoAnswerError`."""
        # pure=False: computed anew, never answered from what the cluster remembers; only there, and only once
        future = self._client.submit(
            function, *given, workers=[address], allow_other_workers=False, pure=False, retries=0
        )
        until = time.monotonic() + seconds
        try:
            while not future.done():
                if address not in self._workers:
                    raise _NoAnswerError("its worker has gone")
                if time.monotonic() > until:
                    raise _NoAnswerError("it doesn't answer any more")
                await asyncio.sleep(_DOZE_SECONDS)
            if future.status == "error":
                error = await future.exception()
                raise _NoAnswerError(f"{type(error).__name__}: {' '.join(str(error).split())}")
            if future.status != "finished":
                raise _NoAnswerError("the scheduler has dropped the question")
            reply = await future.result()
        finally:
            future.release()
        if not isinstance(reply, dict):
            raise _NoAnswerError("it answers something else")
        return reply


def _number(said: object) -> float:
    """What a node says should be a number; 0 where it isn't."""
    return float(said) if isinstance(said, (int, float)) else 0.0
