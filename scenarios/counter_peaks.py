"""The largest rate of each hardware event, in events per second, over all streaming kernels, on one CPU and on all.

Such a peak means 100 % utilisation: what a component reaches when it alone is stressed is the reference, not what a
data sheet promises (Molka et al. 2017, section 3.1, step 5). Every kernel runs over data sets of all sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from setebench.counters.counting import countable, counted, hardware_roles
from setebench.counters.protocol import CountsEvents
from setebench.counters.roles import ROLES
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, KERNELS, stream_bytes
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide
from setebench.stats.estimate import over_epochs

METHOD = "largest of all kernels and sizes, over epochs"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Which kernels run over how much data, how often, and how much time that may take."""

    epochs: int = 4  # repetitions of all readings, spread over the run: fewer give no useful interval
    sizes_bytes: tuple[int, ...] = (1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 23, 1 << 26)  # all arrays of a kernel
    bytes_passed: int = 1 << 26  # bytes that a reading streams over: some milliseconds, so thread starts don't count
    kernels: tuple[str, ...] = ("load", "store", "store_nt", "copy", "triad")  # one for each mix of loads and stores
    seconds: float = 60.0  # time budget of all readings, as estimated from `Facts.lines_per_second`

    def within(self, lines_per_second: float, readings: int) -> Params:
        """Return these settings, reduced so that `readings` fit the time budget on a machine of `lines_per_second`:
        each streams over fewer bytes, and data sets (`sizes_bytes`) of more than four times these are left out."""
        passed = int(min(self.bytes_passed, self.seconds * lines_per_second / readings * 64))
        return replace(self, bytes_passed=passed, sizes_bytes=tuple(s for s in self.sizes_bytes if s <= 4 * passed))

    def quicker(self) -> Params:
        """Return the settings of --fast: an eighth of the bytes per reading, and all data sets but the largest."""
        return replace(self, sizes_bytes=self.sizes_bytes[:-1], bytes_passed=self.bytes_passed >> 3, seconds=20.0)


def answer(context: Context) -> Iterator[Finding]:
    """Yield the peak of each role (kind of event), in events/s. Raises `UnsupportedError` where none can be counted."""
    machine = context.machine
    roles = countable(machine, context.options.get("role") or hardware_roles(machine))
    assert isinstance(machine, CountsEvents)
    params = Params().quicker() if context.fast else Params()
    groups = 1 + len(machine.event_groups(roles))  # each reading is repeated, and warmed up once
    readings = 2 * groups * params.epochs * len(params.kernels) * len(params.sizes_bytes)
    params = params.within(machine.facts.lines_per_second, readings)
    for suffix, cpus in (("peak", (context.own_cpu,)), ("peak.all_cores", machine.facts.cpus)):
        if suffix == "peak" or len(cpus) > 1:
            rates = _rates(context, params, roles, cpus)
            context.evidence[f"rates.{suffix}"] = {
                role: {at: max(each) for at, each in found.items()} for role, found in rates.items()
            }
            yield from (_finding(f"counter.{role}.{suffix}", rates[role]) for role in roles)


def _rates(
    context: Context, params: Params, roles: Sequence[str], cpus: Sequence[int]
) -> dict[str, dict[str, list[float]]]:
    """Return by role, then by kernel and size, the rates in events/s of a kernel on all `cpus` at once, by epoch."""
    machine, width = context.machine, max(context.machine.facts.access_sizes)
    rates: dict[str, dict[str, list[float]]] = {role: {} for role in roles}
    room = max(stream_bytes(KERNELS[name], max(params.sizes_bytes)) for name in params.kernels)
    with ExitStack() as stack:
        placements = {}
        for cpu in cpus:
            region = machine.allocate(room, max(machine.facts.page_sizes))
            stack.callback(machine.release, region)
            placements[Base(f"array{cpu}")] = np.array([region.address])
        for epoch, name, size in product(range(params.epochs), params.kernels, params.sizes_bytes):
            context.progress(f"peaks on {len(cpus)} CPUs, epoch {epoch + 1} of {params.epochs}")
            array_bytes, probes = max(1, size // KERNELS[name].arrays // BLOCK_BYTES) * BLOCK_BYTES, {}
            for cpu, base in zip(cpus, placements, strict=True):
                stream = Probe().stream(base, name, array_bytes, width)
                passes = Probe().repeat(max(1, params.bytes_passed // size), stream)
                probes[cpu] = (Probe().start(dither=False) + passes).fence().stop()
            run = partial(machine.run_together, probes, placements)
            run()
            counts, ticks = counted(machine, roles, run)
            slowest = [max(float(each.max()) for each in found.values()) for found in ticks]
            seconds = float(np.median(slowest)) / machine.facts.ticks_per_second
            for role in roles:
                if (events := counts[role].whole) is not None:
                    rates[role].setdefault(f"{name} over {size >> 10} KiB", []).append(events / seconds)
    return rates


def _finding(parameter: str, found: dict[str, list[float]]) -> Finding:
    """Return the peak of one role: the largest mean rate of all kernels and sizes, and its interval. `found` has their
    rates in events/s, one per epoch; a mean over epochs keeps one lucky reading from being the peak."""
    estimates = {at: over_epochs(rates) for at, rates in found.items()}
    best = max(estimates, key=lambda at: estimates[at].value, default="")
    if not best or estimates[best].value == 0:
        reason = "no kernel made it count anything" if best else "no reading was whole"
        return decide.unresolved(parameter, "events/s", reason, METHOD)
    return decide.measured(parameter, estimates[best], "events/s", f"{METHOD}: {best}", "rates")


SCENARIO = Scenario(
    name="counter-peaks",
    summary="Measure the largest rate of each event: 100 % of what it counts.",
    answer=answer,
    parameters=("counter.",),
    options=(
        Option(name="role", help="Only this role (may be repeated).", multiple=True, choices=tuple(sorted(ROLES))),
    ),
    order=92,
    on_request=True,
)
