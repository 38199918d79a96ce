"""The largest rate of each event over all streaming kernels: what 100 % of it is, on one core and on all.

Molka et al. 2017, section 3.1, step 5: what a component reaches when nothing but it is stressed is the reference of its
utilisation, not what data sheets promise. Every kernel runs over data of every size, alone and on all CPUs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from setebench.counters.counting import countable, counted, hardware_roles, number
from setebench.counters.protocol import CountsEvents
from setebench.counters.roles import ROLES
from setebench.kernels import KERNELS, stream_bytes
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide
from setebench.stats.estimate import over_epochs

METHOD = "largest of all kernels and sizes, over epochs"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables of the question."""

    epochs: int = 4
    """The least that give an interval with some sense."""

    sizes_bytes: tuple[int, ...] = (1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 23, 1 << 26)
    """Of all arrays together: from half of the smallest first cache to beyond what one core gets of any last one, so
    that some size stresses each level. Which one is the peak is for the counts to say."""

    bytes_passed: int = 1 << 26
    """A reading passes over so much at least (some milliseconds), beside which starting threads is nothing."""

    kernels: tuple[str, ...] = ("load", "store", "store_nt", "copy", "triad")
    """One for each mix of directions; the others lie between."""

    seconds: float = 60.0
    """What all of it may take. `Facts.lines_per_second` says how many lines a machine passes in a second of the user's
    time; one that takes long for them passes over less, and over no data set larger than four readings' worth."""

    def within(self, lines_per_second: float, readings: int) -> Params:
        """These, so that so many readings stay within the time."""
        passed = int(min(self.bytes_passed, self.seconds * lines_per_second / readings * 64))
        return replace(self, bytes_passed=passed, sizes_bytes=tuple(s for s in self.sizes_bytes if s <= 4 * passed))

    def quicker(self) -> Params:
        """With --fast: less is passed over."""
        return replace(self, sizes_bytes=self.sizes_bytes[:-1], bytes_passed=self.bytes_passed >> 3, seconds=20.0)


def answer(context: Context) -> Iterator[Finding]:
    """Yield the peak of every role that can be counted. Raises `UnsupportedError` where none can be."""
    machine = context.machine
    roles = countable(machine, context.options.get("role") or hardware_roles(machine))
    assert isinstance(machine, CountsEvents)
    params = Params().quicker() if context.fast else Params()
    groups = 1 + len(machine.event_groups(roles))  # each reading is repeated, and warmed up once
    readings = 2 * groups * params.epochs * len(params.kernels) * len(params.sizes_bytes)
    params = params.within(machine.facts.lines_per_second, readings)
    yield from _peaks(context, params, roles, (context.own_cpu,))
    if len(machine.facts.cpus) > 1:
        yield from _peaks(context, params, roles, machine.facts.cpus)


def _peaks(context: Context, params: Params, roles: Sequence[str], cpus: tuple[int, ...]) -> Iterator[Finding]:
    """The peak of every role on these CPUs at once."""
    suffix = "peak" if len(cpus) == 1 else "peak.all_cores"
    rates: dict[str, dict[str, list[float]]] = {role: {} for role in roles}
    room = max(stream_bytes(KERNELS[name], max(params.sizes_bytes)) for name in params.kernels)
    machine = context.machine
    regions = [machine.allocate(room, max(machine.facts.page_sizes)) for _ in cpus]
    try:
        for epoch in range(params.epochs):
            context.progress(f"peaks on {len(cpus)} CPUs, epoch {epoch + 1} of {params.epochs}")
            for name in params.kernels:
                for size in params.sizes_bytes:
                    _count(context, params, (name, size), dict(zip(cpus, regions, strict=True)), rates)
    finally:
        for region in regions:
            machine.release(region)
    context.evidence[f"rates.{suffix}"] = {
        role: {at: max(each) for at, each in found.items()} for role, found in rates.items()
    }
    for role in roles:
        yield _finding(f"counter.{role}.{suffix}", rates[role])


def _finding(parameter: str, found: dict[str, list[float]]) -> Finding:
    """The kernel and size with the largest mean rate, and that one's interval: each mean is over all epochs, so that a
    lucky reading makes no peak."""
    estimates = {at: over_epochs(rates) for at, rates in found.items()}
    best = max(estimates, key=lambda at: estimates[at].value, default="")
    if not best:
        return decide.unresolved(parameter, "events/s", "no reading was whole", METHOD)
    if estimates[best].value == 0:
        return decide.unresolved(parameter, "events/s", "no kernel made it count anything", METHOD)
    return decide.measured(parameter, estimates[best], "events/s", f"{METHOD}: {best}", "rates")


def _count(
    context: Context,
    params: Params,
    what: tuple[str, int],
    places: dict[int, Region],
    rates: dict[str, dict[str, list[float]]],
) -> None:
    """One reading of every role under a kernel over data of one size; rates are appended."""
    name, size = what
    machine = context.machine
    assert isinstance(machine, CountsEvents)
    kernel = KERNELS[name]
    width = max(machine.facts.access_sizes)
    array_bytes = max(256, size // kernel.arrays // 256 * 256)
    passes = max(1, params.bytes_passed // size)
    probes, placements = {}, {}
    for cpu, region in places.items():
        base = Base(f"array{cpu}")
        stream = Probe().stream(base, name, array_bytes, width)
        probes[cpu] = (Probe().start(dither=False) + Probe().repeat(passes, stream)).fence().stop()
        placements[base] = np.array([region.address])
    machine.run_together(probes, placements)
    for group in machine.event_groups(list(rates)):
        counts, (ticks,) = counted(machine, group, lambda: machine.run_together(probes, placements))
        seconds = max(float(each.max()) for each in ticks.values()) / machine.facts.ticks_per_second
        for role in group:
            if (events := number(counts[role])) is not None:
                rates[role].setdefault(f"{name} over {size >> 10} KiB", []).append(events / seconds)


SCENARIO = Scenario(
    name="counter-peaks",
    summary="Measure the largest rate of each event: 100 % of what it counts.",
    answer=answer,
    parameters=("counter.",),
    options=(
        Option(name="role", help="Only this role (may be repeated).", multiple=True, choices=tuple(sorted(ROLES))),
    ),
    order=92,
    seconds=60.0,
    on_request=True,
)
