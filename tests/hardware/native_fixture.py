"""What the hardware tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from setebench.machine import run_interleaved
from setebench.native.machine import NativeMachine
from setebench.native.threads import allowed_cpus
from setebench.probe import Base, Placements, Probe
from setebench.stats.ticks.location import mean_ticks

LINE = Base("line")


def environment() -> dict[str, str]:
    """That of now, which says whether this process measures, and what keeps outputs and threads few."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1"}


def two_cpus(machine: NativeMachine) -> tuple[int, int]:
    if len(machine.facts.cpus) < 2:
        pytest.skip("this process may use one CPU only")
    return machine.facts.cpus[0], machine.facts.cpus[-1]


def means(machine: NativeMachine, probes: Mapping[str, Probe], placements: Placements) -> dict[str, float]:
    """Mean ticks of each probe's first interval, the probes interleaved so that what disturbs one disturbs all."""
    ticks = run_interleaved(machine, list(probes.values()), placements, np.random.default_rng(1))
    return {name: mean_ticks(each[:, 0], machine.step_ticks) for name, each in zip(probes, ticks, strict=True)}


def in_python(code: str, *, limits: Callable[[], None] | None = None, **named: Any) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process of its own, because it may hang, crash, or leave something behind."""
    return command([sys.executable, "-c", code], limits=limits, **named)


def setebench(*arguments: str, limits: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    """The program itself."""
    return command([sys.executable, "-m", "setebench", *arguments], limits=limits)


def command(
    line: list[str], *, limits: Callable[[], None] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command with text output; `limits` is called in the child before it starts."""
    cpus = allowed_cpus()

    def prepare() -> None:
        os.sched_setaffinity(0, cpus)  # this thread may be pinned by a machine, which a child inherits
        if limits is not None:
            limits()

    return subprocess.run(
        line, capture_output=True, text=True, timeout=timeout, check=False, env=environment(), preexec_fn=prepare
    )
