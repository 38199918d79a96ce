"""What `setebench fleet run` takes on a node beside the measurement: CPU time of a worker, as it is started there, over
the time that a program runs which does nothing.

    python benchmarks/fleet_engine.py --seconds 5 60
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle
from distributed import Client

from setebench.fleet import launch


class Here:
    """One worker on this computer."""

    nodes = ("here",)

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, node: str, command: Sequence[str]) -> None:
        """Start it."""
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


def resting(seconds: float) -> Mapping[str, Any]:
    """On the worker: a measurement that sleeps."""
    from setebench.fleet import measure

    program = [sys.executable, "-S", "-c", f"import time; time.sleep({seconds}); print(1)"]
    measure._command = lambda _request: program
    reply = measure.measure({"limit_seconds": seconds + 60})
    if "error" in reply:
        raise RuntimeError(reply["error"])
    return reply


def main() -> None:
    """Print the fraction for each duration."""
    parser = argparse.ArgumentParser(description="CPU time of the engine on a node")
    parser.add_argument("--seconds", type=float, nargs="+", default=[5.0, 60.0])
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    with launch.cluster(Here(), "127.0.0.1", print) as address, Client(address) as client:
        for seconds in parser.parse_args().seconds:
            reply = client.submit(resting, seconds, pure=False).result()
            fraction = reply["engine_cpu_seconds"] / reply["seconds"]
            print(f"{seconds:g} s: {reply['engine_cpu_seconds']:.2f} s of CPU time, {fraction:.2%}", flush=True)


if __name__ == "__main__":
    main()
