"""Tasks on an existing Dask cluster. Dask gives those of a worker that dies to another one, and gives up on a task that
has cost several of them; that task alone is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError, UsageError
from setebench.score.seeds import sources_hash
from setebench.score.workers.tasks import Answer, Task, lost, perform

if TYPE_CHECKING:
    from setebench.score.workers.local import Heard

_CONNECT_SECONDS = 10.0
"""How long the scheduler may take to answer; one that is there does in milliseconds."""


def perform_on(address: str, tasks: list[Task], heard: Heard) -> list[Answer]:
    """As `workers.perform_all`, on the cluster whose scheduler has that address.

    Raises `UsageError` where Dask is not installed, `SetebenchError` where the scheduler can't be reached, or a worker
    has another version of this package."""
    from setebench.sim.compiled import prepare

    prepare()  # workers of this computer share the compiled simulator
    client, as_completed = _connected(address)
    with client:
        wanted = sources_hash()
        # pure=False: a task is carried out again, never answered from what the cluster remembers of an earlier run
        pending = {client.submit(_checked, task, wanted, pure=False): task for task in tasks}
        answers = {}
        try:
            for future in as_completed(list(pending), loop=client.loop):
                task = pending.pop(future)
                answers[task] = _answer(future, task)
                heard(answers[task])
                future.release()  # else the cluster would compute it again where the worker that holds it dies
        except BaseException:
            client.cancel(list(pending))
            raise
    return [answers[task] for task in tasks]


class OtherVersion(SetebenchError):
    """A worker whose package is another one."""


def _checked(task: Task, wanted: str) -> Answer:
    """Runs on a worker."""
    own = sources_hash()
    if own != wanted:
        raise OtherVersion(f"a worker of the cluster has another version of setebench ({own[:12]}, here {wanted[:12]})")
    return perform(task)


def _answer(future: Any, task: Task) -> Answer:
    if future.status == "cancelled":  # nobody here has cancelled it: the scheduler is gone, or was started anew
        raise SetebenchError("the Dask scheduler has dropped the run; with --answers FILE, --resume FILE goes on")
    error = future.exception()
    if isinstance(error, OtherVersion):
        raise error
    if error is not None:  # a worker that died, or whose computer lacks something: that task alone is lost
        return lost(task, f"{type(error).__name__}: {' '.join(str(error).split())}")
    answer: Answer = future.result()
    return answer


def _connected(address: str) -> tuple[Any, Any]:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise UsageError("--on needs Dask: pip install 'setebench[cluster]'") from error
    begin: Any = Client  # whose types depend on whether the extra is installed
    try:
        return begin(address, timeout=_CONNECT_SECONDS, set_as_default=False), as_completed
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split())
        raise SetebenchError(f"no Dask scheduler can be reached at {address!r}: {why}") from error
