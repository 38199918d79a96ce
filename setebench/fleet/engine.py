"""Measuring nodes on a Dask cluster: each node is asked by name, alone and one thing at a time; one that is slow, dead
or answers nonsense costs itself.

Nothing is ever given to another worker: a node is a question of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from setebench import store
from setebench.errors import SetebenchError, UsageError
from setebench.fleet.measure import describe, measure
from setebench.fleet.plan import Folder, Job, is_safe

CONNECT_SECONDS = 10.0
"""How long a scheduler may take to answer; one that is there does in milliseconds."""

POLL_SECONDS = 1.0
"""How often it is looked who came and who went."""

_DOZE_SECONDS = 0.02

ANSWER_SECONDS = 60.0
"""A node that says nothing for so long beyond its limit is taken for dead."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How nodes are asked. `by_worker`: each worker is a node, by its name; else each host. `limit_seconds` is for one
    scenario; `at_once` limits the nodes that measure at the same time; `every_seconds` lie between the begins of two
    runs. `expected` are nodes whose workers are still to come, within `wait_seconds`."""

    by_worker: bool = False
    limit_seconds: float = 3600.0
    at_once: int | None = None
    every_seconds: float = 0.0
    expected: tuple[str, ...] = ()
    wait_seconds: float = 0.0


@dataclass(kw_only=True)
class Listener:
    """Who hears of what is done next, and of what went wrong: a line each."""

    progress: Callable[[str], None] = lambda _line: None
    problem: Callable[[str], None] = lambda _line: None


@dataclass(kw_only=True)
class Tally:
    """What came of a run: jobs kept and failed, nodes, and the engine's CPU time beside the measurements' time."""

    kept: int = 0
    failed: int = 0
    nodes: set[str] = field(default_factory=set)
    seconds: float = 0.0
    engine_cpu_seconds: float = 0.0


@dataclass(kw_only=True)
class _Node:
    """A node with a worker: what it has left to do, what it does now, and until when."""

    name: str
    address: str
    load: float
    left: list[Job]
    future: Any = None
    job: Job | None = None
    deadline: float = 0.0


def connected(address: str) -> Any:
    """A client of the scheduler at that address. Raises `UsageError` where Dask is not installed, `SetebenchError`
    where there is no scheduler."""
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError("measuring a fleet needs Dask: pip install 'setebench[cluster]'") from error
    begin: Any = Client
    try:
        return begin(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split())
        raise SetebenchError(f"no Dask scheduler can be reached at {address!r}: {why}") from error


def carry_out(client: Any, folder: Folder, manner: Manner, listener: Listener) -> Tally:
    """Ask every node what it has not answered yet. Raises `SetebenchError` where there are no nodes."""
    run = _Run(client, folder, manner, listener)
    try:
        while run.step():
            pass
    finally:
        run.cancel()
    if not run.tally.nodes:
        raise SetebenchError("the cluster has no workers that could be asked")
    return run.tally


class _Run:
    """The nodes of a run and what they do."""

    def __init__(self, client: Any, folder: Folder, manner: Manner, listener: Listener) -> None:
        self._client, self._folder, self._manner, self._listener = client, folder, manner, listener
        self._nodes: dict[str, _Node] = {}
        self._asked: dict[str, tuple[Any, float]] = {}
        self._known: set[str] = set()
        self._names: dict[str, str] = {}
        self._begin = time.monotonic()
        self._failed: set[Job] = set()
        self._missed = False
        self.tally = Tally()

    def step(self) -> bool:
        """Look who is there, give them something to do, and take what comes. False where nothing is left."""
        workers = self._workers()
        self._meet(workers)
        self._miss(workers)
        self._start()
        busy = [node.future for node in self._nodes.values() if node.future is not None]
        busy += [future for future, _ in self._asked.values()]
        if busy:
            self._wait(busy)
            self._take()
            return True
        waiting = any(node.left for node in self._nodes.values()) or self._await_expected()
        if waiting:
            time.sleep(POLL_SECONDS)
        return waiting

    def cancel(self) -> None:
        """Let go what is still asked."""
        pending = [node.future for node in self._nodes.values() if node.future is not None]
        with suppress(Exception):  # the scheduler may be gone, which has been reported
            self._client.cancel([*pending, *(future for future, _ in self._asked.values())])

    # -- who is there -------------------------------------------------------------------------------------------------

    def _workers(self) -> dict[str, Any]:
        """Name by address."""
        try:
            try:
                found = self._client.scheduler_info(n_workers=-1)
            except TypeError:  # before this argument all were listed
                found = self._client.scheduler_info()
        except (OSError, TimeoutError) as error:
            raise SetebenchError(f"the Dask scheduler is gone; the same command goes on later: {error}") from error
        if self._client.status != "running":
            raise SetebenchError("the Dask scheduler is gone; the same command goes on later")
        return {address: worker.get("name", address) for address, worker in found["workers"].items()}

    def _meet(self, workers: dict[str, Any]) -> None:
        """Ask workers that are new for their names."""
        for address, name in workers.items():
            if address not in self._known:
                self._known.add(address)
                future = self._client.submit(describe, workers=[address], allow_other_workers=False, pure=False)
                self._asked[address] = (future, time.monotonic() + ANSWER_SECONDS)
                self._names[address] = str(name)

    def _introduce(self, address: str, reply: dict[str, Any]) -> None:
        by_worker = self._manner.by_worker or bool(self._manner.expected)
        name = self._names[address] if by_worker else str(reply.get("host"))
        if not is_safe(name):
            self._listener.problem(f"a worker at {address} calls its node {name!r}, which can't be a file's name")
            return
        if name in self._nodes:
            self._listener.progress(f"{name} has another worker at {address}, which isn't used")
            return
        if reply.get("version") != store.this_tool().version:
            versions = f"{reply.get('version')}; here it is {store.this_tool().version}"
            self._listener.problem(f"{name} has another version of setebench, {versions}")
        left = [job for job in self._folder.left(name) if job not in self._failed]
        self._nodes[name] = _Node(name=name, address=address, load=_number(reply.get("load")), left=left)
        self.tally.nodes.add(name)

    def _miss(self, workers: dict[str, Any]) -> None:
        """Give up what was asked of workers that are gone, or that have been silent for too long."""
        now = time.monotonic()
        for node in list(self._nodes.values()):
            gone = node.address not in workers
            if gone or (node.future is not None and now > node.deadline):
                self._lose(node, "its worker has gone" if gone else "it doesn't answer any more")
        for address, (future, deadline) in list(self._asked.items()):
            if address not in workers or now > deadline:
                self._client.cancel([future])
                del self._asked[address]
                self._listener.problem(f"the worker {self._names[address]} at {address} doesn't answer")

    def _lose(self, node: _Node, why: str) -> None:
        """The node may come back with another worker, and then goes on behind what it was lost with."""
        del self._nodes[node.name]
        if node.future is not None:
            self._client.cancel([node.future])
            assert node.job is not None
            self._fail(node.job, why)
        elif node.left:
            self._listener.problem(f"{node.name}: {why}; {len(node.left)} answers are missing")

    def _fail(self, job: Job, why: str) -> None:
        self._failed.add(job)
        self.tally.failed += 1
        self._listener.problem(f"{job.title}: {why}")

    def _await_expected(self) -> bool:
        """Whether a node may still come; says once which don't."""
        missing = [name for name in self._manner.expected if name not in self.tally.nodes]
        if not missing or self._missed:
            return False
        if time.monotonic() - self._begin <= self._manner.wait_seconds:
            return True
        self._missed = True
        for name in missing:
            self._listener.problem(f"{name}: no worker has come from it within {self._manner.wait_seconds:g} seconds")
        return False

    # -- what they do -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Something to do for nodes that rest, the least busy first."""
        busy = sum(node.future is not None for node in self._nodes.values())
        for node in sorted(self._nodes.values(), key=lambda each: each.load):
            if self._manner.at_once is not None and busy >= self._manner.at_once:
                return
            if node.future is None and node.left and self._is_due(node.left[0]):
                self._ask(node, node.left.pop(0))
                busy += 1

    def _is_due(self, job: Job) -> bool:
        return time.monotonic() - self._begin >= (job.run - 1) * self._manner.every_seconds

    def _ask(self, node: _Node, job: Job) -> None:
        request = {**self._folder.request(job), "limit_seconds": self._manner.limit_seconds}
        node.job = job
        node.deadline = time.monotonic() + self._manner.limit_seconds + ANSWER_SECONDS
        # pure=False: asked anew, never answered from what the cluster remembers; only here, and only once
        node.future = self._client.submit(
            measure, request, workers=[node.address], allow_other_workers=False, pure=False, retries=0
        )
        self._listener.progress(job.title)

    def _wait(self, futures: Iterable[Any]) -> None:
        """Until one of them is done, or it is time to look who is there."""
        futures, until = list(futures), time.monotonic() + POLL_SECONDS
        while time.monotonic() < until and not any(future.done() for future in futures):
            time.sleep(_DOZE_SECONDS)

    def _take(self) -> None:
        for address, (future, _) in list(self._asked.items()):
            if future.done():
                del self._asked[address]
                reply = self._outcome(future)
                if isinstance(reply, str):
                    self._listener.problem(f"the worker {self._names[address]} at {address} can't be asked: {reply}")
                else:
                    self._introduce(address, reply)
        for node in self._nodes.values():
            if node.future is not None and node.future.done():
                future, job = node.future, node.job
                node.future = node.job = None
                assert job is not None
                self._keep(job, self._outcome(future))

    def _outcome(self, future: Any) -> dict[str, Any] | str:
        """What a worker returned, or why it returned nothing."""
        if future.status == "cancelled":
            return "the scheduler has dropped the question"
        error = future.exception()
        if error is not None:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        reply = future.result()
        return reply if isinstance(reply, dict) else "it answers what nobody asked"

    def _keep(self, job: Job, reply: dict[str, Any] | str) -> None:
        answer = None if isinstance(reply, str) else reply.get("answer")
        if isinstance(reply, dict):
            self.tally.seconds += _number(reply.get("seconds"))
            self.tally.engine_cpu_seconds += _number(reply.get("engine_cpu_seconds"))
        if not isinstance(answer, bytes):
            why = reply if isinstance(reply, str) else str(reply.get("error", "it answers what nobody asked"))
            self._fail(job, why)
            return
        try:
            self._folder.keep(job, answer)
        except UsageError as error:
            self._fail(job, str(error))
            return
        self.tally.kept += 1
        self._listener.progress(f"{job.title}: done")


def _number(said: object) -> float:
    """What a node says should be a number; 0 where it isn't."""
    return float(said) if isinstance(said, (int, float)) else 0.0
