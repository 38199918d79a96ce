"""The one way to a Dask cluster, for what can run on one."""

from __future__ import annotations

from typing import Any

from setebench.errors import SetebenchError, UsageError

CONNECT_SECONDS = 10.0  # how long a scheduler may take to answer; one that is there does in milliseconds


def connected(address: str) -> Any:
    """A client of the cluster whose scheduler has that address, to be closed by the caller.

    Raises `UsageError` where Dask is not installed, `SetebenchError` where there is no scheduler."""
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError("--on needs Dask: pip install 'setebench[cluster]'") from error
    begin: Any = Client  # whose types depend on whether the extra is installed
    try:
        return begin(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split())
        raise SetebenchError(f"no Dask scheduler can be reached at {address!r}: {why}") from error
