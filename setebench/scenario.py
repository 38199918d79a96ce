"""What a scenario is: one question, its options, and the code that answers it from ticks alone."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from setebench.calibration import USUAL_LINE, Calibration, measured_line
from setebench.errors import UnsupportedError
from setebench.machine import BindsMemory, Machine, Region
from setebench.results import Finding

CALIBRATED = ("clock", "issue_pace", "levels")
"""What a scenario may need of `Context.calibration`."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A scenario's own command-line option. `choices` restricts a string; `flag` makes it a switch. `check` is called
    with a value that is given, before anything is measured, and raises `UsageError` for one that can't be."""

    name: str
    help: str
    default: Any = None
    type: type = str
    choices: tuple[str, ...] = ()
    flag: bool = False
    multiple: bool = False
    check: Callable[[Any], object] | None = None


PAGE_BYTES = {"4k": 1 << 12, "2m": 1 << 21, "1g": 1 << 30}
PAGE_SIZE = Option(
    name="page_size",
    help="Pages of the memory that is measured, shown by the system. Questions about pages of one size keep those. "
    "Default: the scenario's choice.",
    choices=tuple(PAGE_BYTES),
)
"""All memory that a scenario takes by `Context.allocate` lies in such pages."""


def ignore(_what: object) -> None:
    """Does nothing, where nobody listens."""


@dataclass(kw_only=True)
class Context:
    """All that a scenario holds: the machine, its settings, a random generator, and where evidence goes.

    `effort` scales sample sizes: 1 by default, less with --fast. `evidence` takes JSON-able values by name.
    `calibration` is what earlier steps of the same run measured, so that it is measured once. `foundations` are the
    findings of the scenarios that this one builds on. `memory_node` is the number of the node where memory is to lie.
    `layouts` counts the generators that `fresh_rng` gave. `progress` is called between measurements, never while one
    runs.
    """

    machine: Machine
    seed: int = 1
    cpu: int | None = None
    fast: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    calibration: Calibration = field(default_factory=Calibration)
    foundations: tuple[Finding, ...] = ()
    memory_node: int | None = None
    layouts: int = 0
    progress: Callable[[str], None] = ignore

    @property
    def own_cpu(self) -> int:
        """The CPU that probes run on: the machine's own where none was chosen."""
        return self.machine.facts.own_cpu if self.cpu is None else self.cpu

    @property
    def large_pages(self) -> bool:
        """Whether the option `PAGE_SIZE` names other pages than those of 4 KiB, of which some questions are."""
        return self.options.get(PAGE_SIZE.name) not in (None, "4k")

    @property
    def line_size(self) -> int:
        """Bytes of a line: measured at the first use, `USUAL_LINE` where a flush doesn't show it."""
        if self.calibration.line_bytes is None:
            line = measured_line(self.machine, self.cpu, self.rng("line size"))
            self.calibration = replace(self.calibration, line_bytes=line)
        return self.calibration.line_bytes or USUAL_LINE

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """Memory of the machine (see `Machine.allocate`), in lines of the measured size, on `memory_node`, in pages of
        the size that the option `PAGE_SIZE` names. What is touched later is to be `placed` then."""
        page = PAGE_BYTES.get(self.options.get(PAGE_SIZE.name) or "", page_size)
        region = self.exact_pages(size, page, populate=populate)
        self.placed(region)
        return region

    def exact_pages(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """Memory as `allocate` gives it, for questions about pages of this size: no option changes it."""
        line = self.line_size
        region = self.machine.allocate(size, page_size, populate=populate)
        region.line_size = line
        return region

    def placed(self, region: Region) -> None:
        """Where a node or pages are wanted, see that touched memory lies there; of pages evidence is kept. Raises
        `UnsupportedError` where it doesn't."""
        node, machine = self.memory_node, self.machine
        if node is not None and not (isinstance(machine, BindsMemory) and machine.bind(region, node)):
            how = "too little is free there, or mbind is not allowed (in a container: --cap-add SYS_NICE)"
            raise UnsupportedError(f"memory can't be put on node {node}: {how}")
        if not (wanted := self.options.get(PAGE_SIZE.name)):
            return
        seen = region.backing()
        if others := {page: size >> 10 for page, size in seen.items() if page != PAGE_BYTES[wanted]}:
            raise UnsupportedError(f"not all memory lies in {wanted} pages: KiB by bytes of a page are {others}")
        shown = self.evidence.setdefault("pages", {"size": wanted, "shown_bytes": 0})
        shown["shown_bytes"] += min(sum(seen.values()), region.size)  # a mapping may hold others too

    @contextmanager
    def memory(self, size: int, page_size: int = 0) -> Iterator[Region]:
        """So many bytes in the smallest pages, or in exactly those of a size, until the block ends. Raises
        `UnsupportedError` where there are not so many."""
        page = page_size or min(self.machine.facts.page_sizes)
        region = (self.exact_pages if page_size else self.allocate)(-(-size // page) * page, page)
        try:
            yield region
        finally:
            self.machine.release(region)

    def rng(self, purpose: int | str) -> np.random.Generator:
        """A generator of its own for each purpose, so that one step's draws don't shift another's. A text needs no list
        of the numbers that others have taken."""
        number = zlib.crc32(purpose.encode()) if isinstance(purpose, str) else purpose
        return np.random.default_rng((self.seed, number))

    def fresh_rng(self, *purpose: int) -> np.random.Generator:
        """Another generator at every call: for layouts of lines, of which each is to be new."""
        self.layouts += 1
        return np.random.default_rng((self.seed, *purpose, self.layouts))


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A question. `answer` yields findings; `parameters` are the prefixes of the parameters it may report;
    `plot` draws a document's evidence into a matplotlib figure.

    `order` says where `setebench characterize` runs it: lower first. What others build on comes early (the clock and
    the levels 10, the hierarchy 20), what loads the machine most comes last. A scenario `on_request` is run by its name
    alone: `characterize` and a `score` that names no scenario leave it out.

    `needs` names every answer of another question that it reads, in itself or in the experiments that it runs: of
    `Context.calibration` the "clock" (its step), the "issue_pace" of a core that is alone, the "levels", each measured
    by whoever needs it first; and scenarios whose findings it reads, as `context.foundations`: those of the file that
    its option `result` names, else of these scenarios, run right before with fewer samples. All else it measures for
    itself. `method_version`, which its findings carry, goes up with every change by which one may come out otherwise.
    `words` says in sentences, for people, what its evidence holds beside the findings; shown under the table."""

    name: str
    summary: str
    answer: Callable[[Context], Iterable[Finding]]
    parameters: tuple[str, ...]
    options: tuple[Option, ...] = ()
    plot: Callable[[dict[str, Any]], Any] | None = None
    order: int = 100
    on_request: bool = False
    needs: tuple[str, ...] = ()
    words: Callable[[dict[str, Any]], str] | None = None
    method_version: int = 1

    @property
    def builds_on(self) -> tuple[str, ...]:
        """The scenarios whose findings it reads."""
        return tuple(name for name in self.needs if name not in CALIBRATED)
