"""The classical STREAM table: Copy, Scale, Add and Triad over arrays far larger than the caches, validated.

McCalpin's rules: 10 runs of each, the best rate reported with average, least and greatest time; every array at least
four times the last level. Here the runs come in rounds over all kernels, each with one more run that is left out, and
every element that a kernel wrote is compared in the first, where memory can be read. Each kernel runs with both forms
of its loop, as compilers make either; the faster one is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UsageError
from setebench.infer.peaks import best_of_rounds
from setebench.kernels import BLOCK_BYTES, KERNELS, SCALAR, Kernel, array_spacing, stream_bytes
from setebench.machine import HoldsNumbers
from setebench.results import Finding, Outcome
from setebench.scenario import Context, Option, Scenario
from setebench.streaming.budget import Budget
from setebench.streaming.choice import WIDTH, WIDTHS, choose_cpus, kernels_of, widths_of, without_kernels
from setebench.streaming.findings import RUN_TO_RUN, why_no_rate, with_co_runner
from setebench.streaming.sweep import Point
from setebench.streaming.team import Team, Timing

TABLE = {"Copy": "copy", "Scale": "scale", "Add": "add", "Triad": "triad"}
ROUNDS, FEWEST_ROUNDS = 8, 2
"""As many as the budget lasts for."""

RUNS = 2
"""Of a kernel in a round, the first of which is left out: more rounds say more than more runs of one."""

BUDGET_SECONDS = 30.0
"""For all rounds (see `budget.Budget`): what decides is the lines that pass and their ticks, not a clock."""

DEFAULT_MIB, FAST_MIB = 128, 64
"""Size of an array: four times a last level of 32 MiB; --size takes others."""

LEAST_OVERLAP = 0.8

CHUNK = 1 << 18


def answer(context: Context) -> Iterator[Finding]:
    """Yield the best rate of every kernel, and its times in the note."""
    facts = context.machine.facts
    if not facts.kernels:
        yield without_kernels(facts)
        return
    kernels = kernels_of(facts, tuple(TABLE.values()))
    widths = widths_of(facts, tuple(context.options.get("width") or ()))
    threads = context.options.get("threads") or len(facts.cpus)
    array_bytes = _array_bytes(context, threads)
    nontemporal = [KERNELS[name] for name in ("copy_nt", "triad_nt") if context.options.get("non_temporal")]
    team = Team(context, choose_cpus(facts, context.cpu, threads), stream_bytes(KERNELS["triad"], array_bytes))
    context.evidence["stream"] = {"array_bytes_per_thread": array_bytes, "threads": threads, "runs": {}}
    try:
        team.fill(KERNELS["triad"], WIDTHS[widths[-1]], array_bytes)
        _initialise(context, team, array_bytes)
        rows = {
            (kernel, width): [_Form(Point(array_bytes, [], rolled=rolled)) for rolled in kernel.forms]
            for kernel, width in product((*kernels, *nontemporal), widths)
        }
        passed = 3 * RUNS * array_bytes * threads * sum(len(forms) for forms in rows.values())
        rounds = Budget(facts, BUDGET_SECONDS).times(passed, 1.0, FEWEST_ROUNDS, ROUNDS)
        for number, ((kernel, width), forms) in product(range(rounds), rows.items()):
            context.progress(f"round {number + 1}: {kernel.name}.{width}: {kernel.formula}")
            for form in forms:
                _run(context, team, kernel, width, array_bytes, form)
    finally:
        team.close()
    yield from (_row(kernel, width, threads, forms) for (kernel, width), forms in rows.items())


def _array_bytes(context: Context, threads: int) -> int:
    """Bytes of a thread's part of an array. Raises `UsageError` where three arrays don't fit the memory."""
    mib = context.options.get("size") or (FAST_MIB if context.fast else DEFAULT_MIB)
    room = context.machine.facts.memory_bytes
    if mib < 1 or 3 * mib << 20 > room // 2:
        raise UsageError(f"--size takes 1 to {(room // 6) >> 20} MiB: three arrays must fit half of the memory")
    return int((mib << 20) / threads / BLOCK_BYTES) * BLOCK_BYTES


@dataclass
class _Form:
    """The runs of a kernel with one form of its loop: their times round by round, what is wrong with the results or "",
    and what of them was checked."""

    point: Point
    rounds: list[Timing] = field(default_factory=list)
    wrong: str = ""
    checked: str = ""

    @property
    def name(self) -> str:
        return "rolled" if self.point.rolled else "unrolled"

    @property
    def timing(self) -> Timing:
        """All runs."""
        return reduce(Timing.then, self.rounds)


def _row(kernel: Kernel, width: str, threads: int, forms: list[_Form]) -> Finding:
    """A kernel's rate, or what is wrong with it."""
    parameter = f"bandwidth.memory.{kernel.name}.{width}.threads_{threads}"
    wrong = next((each.wrong for each in forms if each.wrong), "")
    form = max(forms, key=lambda each: (each.point.together is not None, each.point.best))
    best, rates = form.point.best, form.point.rounds
    reason = wrong or why_no_rate(rates, best, form.point.overlap if form.point.together is None else 1.0, shared=True)
    if reason:
        return Finding(parameter=parameter, outcome=Outcome.UNRESOLVED, reason=reason)
    if not form.point.alone:
        return with_co_runner(parameter, best, "stream")
    interval = best_of_rounds(rates, RUN_TO_RUN, shared=True)
    return Finding(
        parameter=parameter,
        value=round(best, 4),
        unit="GB/s",
        low=min(interval.low, best * (1 - RUN_TO_RUN)) if interval else None,
        high=interval.high if interval else None,
        method=f"{_title(kernel)}, {form.name}: {_times(form.timing)}; {form.checked}",
        evidence="stream",
    )


def _run(context: Context, team: Team, kernel: Kernel, width: str, array_bytes: int, form: _Form) -> None:
    """One round of one form of a kernel; its results are looked at in the first."""
    first = not form.rounds
    if first:  # a result left from the kernel before would pass for one
        team.fill(KERNELS["store"], WIDTHS[width], array_bytes)
    form.rounds.append(team.time(kernel, WIDTHS[width], array_bytes, 1, RUNS - 1, rolled=form.point.rolled))
    form.point.add(form.rounds[-1], LEAST_OVERLAP)
    if first:
        form.wrong, form.checked = _validate(context, team, kernel, array_bytes)
    timing = form.timing
    context.evidence["stream"]["runs"][f"{kernel.name}.{width}.{form.name}"] = {
        "seconds": timing.seconds().tolist(),
        "overlap": timing.overlap().tolist(),
        "start_microseconds": timing.start_microseconds().tolist(),
        "validation": form.wrong or form.checked,
    }


def _title(kernel: Kernel) -> str:
    return next((title for title, name in TABLE.items() if name == kernel.name), kernel.name)


def _times(timing: Timing) -> str:
    seconds = timing.seconds()
    return f"average {seconds.mean():.6f} s, least {seconds.min():.6f} s, greatest {seconds.max():.6f} s"


def _values(array: int, first: int, count: int) -> NDArray[np.float64]:
    """What b (1) and c (2) hold from number `first` on: other numbers from element to element, so that a shifted or
    missing one shows."""
    return array + (np.arange(first, first + count) % (1021, 509)[array - 1]).astype(np.float64)


def _chunks(array_bytes: int) -> Iterator[tuple[int, int]]:
    """(first element, number of elements) of pieces of an array: whole ones would need as much memory again."""
    elements = array_bytes // 8
    for first in range(0, elements, CHUNK):
        yield first, min(CHUNK, elements - first)


def _initialise(context: Context, team: Team, array_bytes: int) -> None:
    """Numbers into b and c, which no kernel of the table changes, of every thread."""
    machine = context.machine
    if not isinstance(machine, HoldsNumbers):
        return  # `fill` has put some there already
    spacing = array_spacing(array_bytes) // 8
    for region in team.regions:
        for array in (1, 2):
            for first, count in _chunks(array_bytes):
                machine.write_numbers(region, _values(array, first, count), array * spacing + first)


def _validate(context: Context, team: Team, kernel: Kernel, array_bytes: int) -> tuple[str, str]:
    """(what is wrong or "", what was checked): every element of a, on every CPU."""
    machine = context.machine
    if not isinstance(machine, HoldsNumbers):
        return "", "not validated: this machine's memory holds no numbers"
    assert kernel.expected is not None  # all kernels of the table store
    for cpu, region in zip(team.cpus, team.regions, strict=True):
        for first, count in _chunks(array_bytes):
            b, c = (_values(array, first, count) for array in (1, 2))
            expected = kernel.expected([b, b, c])[0]
            found = machine.read_numbers(region, first, count)
            wrong = np.flatnonzero(found != expected)
            if len(wrong):
                at = int(wrong[0])
                reason = f"validation failed on CPU {cpu}: a[{first + at}] is {found[at]}, not {expected[at]}"
                return f"{reason} (s = {SCALAR})", ""
    return "", f"all {array_bytes // 8 * len(team.cpus)} results right"


SCENARIO = Scenario(
    name="stream",
    summary="the classical STREAM table (Copy, Scale, Add, Triad) of memory, validated",
    answer=answer,
    parameters=("bandwidth.memory.",),
    options=(
        Option(name="threads", help="Number of threads. Default: one on every CPU.", type=int),
        Option(name="size", help="Size of each of the three arrays in MiB. Default: 128, or 64 with --fast.", type=int),
        WIDTH,
        Option(name="non_temporal", help="Copy and triad with non-temporal stores, too.", flag=True),
    ),
    order=90,
    seconds=5.0,
)
