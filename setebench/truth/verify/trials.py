"""Trials: random probes as data, the same for every machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from setebench.machine import Facts
from setebench.notation import render
from setebench.probe import Base, Operand, Probe

PAGE, HUGE = 4096, 2 << 20
HERE, THERE, TARGET = Base("p"), Base("q"), Base("t")
"""A random place, another one, and the line whose level is measured; new ones in every repetition."""

SPAN_PAGES = 4
"""Pages around a place that belong to it: places are so far apart that no pattern reaches the next."""


@dataclass(frozen=True)
class Surroundings:
    """What trials may rely on: facts that machine and twin share, and sizes of the twin that scale working sets. Sizes
    only decide where probes fall dense; what they answer is compared, not assumed."""

    facts: Facts
    line: int
    cache_lines: tuple[int, ...]
    second_cycles: float
    memory_cycles: float

    @property
    def lines_per_page(self) -> int:
        return PAGE // self.line


@dataclass(frozen=True)
class Levels:
    """Asks which level serves lines after a pattern. `pattern` brings lines about; each of `targets` (bytes from
    HERE) is loaded on its own after it, in repetitions of its own. `evicting` lines of a ring are chased in between,
    0 for none."""

    family: str
    pattern: Probe
    targets: tuple[int, ...]
    page_size: int = PAGE
    evicting: int = 0

    def shown(self, target: int) -> str:
        """The whole probe for one target, in the pattern notation."""
        ring = f"; chase r {self.evicting}; fence; load p+2048" if self.evicting else ""
        asked = render(Probe().fence().start().load(Operand(HERE, target)).stop())
        return f"{render(self.pattern)}{ring}; {asked}".replace("\n", "; ").strip("; ")


@dataclass(frozen=True)
class Times:
    """Asks how long interval 0 of `probe` takes, in cycles for each of `units`. `ring` lines are linked for a chase
    that starts at HERE; `bytes` are those of arrays that it streams through."""

    family: str
    probe: Probe
    units: int
    page_size: int = PAGE
    ring: int = 0
    ring_pages: int = 0
    bytes: int = 0

    def shown(self) -> str:
        """The probe in the pattern notation."""
        ring = f"  # a cycle of {self.ring} random lines on {self.ring_pages} pages" if self.ring else ""
        return f"{render(self.probe)}{ring}".replace("\n", "; ").strip("; ")


Trial = Levels | Times
Draw = Callable[[np.random.Generator, Surroundings], Trial | None]


@dataclass(frozen=True)
class Family:
    """A kind of trials: how one is drawn; None where the machine can't be asked. `weight` is its part of all trials."""

    name: str
    draw: Draw
    weight: float = 1.0


def generator(*numbers: int) -> np.random.Generator:
    """The generator of one trial, so that a trial can be repeated alone."""
    return np.random.default_rng(numbers)


def choice(rng: np.random.Generator, options: Any) -> Any:
    """One of some objects."""
    return options[int(rng.integers(len(options)))]


def whole(rng: np.random.Generator, low: float, high: float) -> int:
    """A whole number between two, uniform in the logarithm."""
    return round(float(np.exp(rng.uniform(np.log(low), np.log(max(high, low))))))
