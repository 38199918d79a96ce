"""The classical STREAM table: Copy, Scale, Add and Triad over arrays far larger than the caches, validated.

McCalpin's rules: a good rate of several runs (he takes the best one, here it is their 84th percentile) is reported
beside average, least and greatest time, and every array is far larger than the caches: he asks for four times the last
level, here a pass over one array leaves no line in any cache. His first run is left out as it touches the memory first;
here that was done before. The runs come in rounds
over all kernels, and every element that a kernel wrote is compared once, where memory can be read. Each kernel runs
with both forms of its loop, as compilers make either; the faster one is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UsageError
from setebench.experiments.streams.after_a_pass import outgrowing_bytes
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import WIDTH, WIDTHS, choose_cpus, kernels_of, widths_of, without_kernels
from setebench.experiments.streams.team import Stream, Team, Timing
from setebench.kernels import BLOCK_BYTES, KERNELS, SCALAR, Kernel, array_spacing, stream_bytes
from setebench.machine import numbers_of
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide
from setebench.stats.rounds import RATE, quantile_of_rounds

EVIDENCE = "stream"
TABLE = {"Copy": "copy", "Scale": "scale", "Add": "add", "Triad": "triad"}


@dataclass(frozen=True, kw_only=True)
class Params:
    """What the table costs and rests on."""

    rounds: int = 8
    """Timed rounds at most: the mean of so many is known to 0.8 of their standard deviation (Student's t)."""

    fewest_rounds: int = 2
    """Whatever the budget, as one round has no interval; so many run both forms of a loop."""

    seconds: float = 30.0
    """Of `budget.Budget`, for all rounds: McCalpin's own program takes about as long on a large machine."""

    fast_seconds: float = 10.0
    """The same with --fast: two or three rounds of arrays that outgrow 32 MiB."""

    sizing_seconds: float = 6.0
    """Of `budget.Budget`, for the search of the array size: a fifth of what the rounds may take."""

    memory_fraction: float = 1 / 6
    """Of the machine's memory for one array at most: three of them leave half of it to others."""

    placing: float = 0.03
    """Of a rate: what all runs have in common, where pages and instructions lie."""

    chunk: int = 1 << 18
    """Elements that are compared at a time: 2 MiB, which stay in a second cache."""


PARAMS = Params()


def answer(context: Context) -> Iterator[Finding]:
    """Yield the best rate of every kernel, and its times in the note."""
    facts = context.machine.facts
    if not facts.kernels:
        yield without_kernels(facts)
        return
    kernels = kernels_of(facts, tuple(TABLE.values()))
    widths = widths_of(facts, tuple(context.options.get("width") or ()))
    threads = context.options.get("threads") or len(facts.cpus)
    cpus = choose_cpus(facts, context.cpu, threads)
    whole = _array_bytes(context)
    array_bytes = whole // threads // BLOCK_BYTES * BLOCK_BYTES
    if not whole:
        yield from (_too_small(kernel, width, threads) for kernel, width in product(kernels, widths))
        return
    nontemporal = [KERNELS[name] for name in ("copy_nt", "triad_nt") if context.options.get("non_temporal")]
    team = Team(context, cpus, stream_bytes(KERNELS["triad"], array_bytes))
    context.evidence[EVIDENCE] = {"array_bytes_per_thread": array_bytes, "threads": threads, "runs": {}}
    try:
        team.fill(KERNELS["triad"], WIDTHS[widths[-1]], array_bytes)
        _initialise(context, team, array_bytes)
        rows = {
            (kernel, width): [_Form(rolled, array_bytes) for rolled in kernel.forms]
            for kernel, width in product((*kernels, *nontemporal), widths)
        }
        _run_rounds(context, team, rows)
    finally:
        team.close()
    yield from (_row(kernel, width, threads, forms) for (kernel, width), forms in rows.items())


def _array_bytes(context: Context) -> int:
    """Bytes of an array: by default such that a pass over one leaves no line in a cache, 0 where that was not found.
    Raises `UsageError` where three arrays don't fit the memory."""
    most = int(PARAMS.memory_fraction * context.machine.facts.memory_bytes)
    mib = context.options.get("size")
    if mib is None:
        context.progress("the size of the arrays")
        return outgrowing_bytes(context, most, PARAMS.sizing_seconds)
    if not 1 <= mib <= most >> 20:
        raise UsageError(f"--size takes 1 to {most >> 20} MiB: three arrays must fit half of the memory")
    return int(mib << 20)


@dataclass
class _Form:
    """The runs of a kernel with one form of its loop: their times round by round, what is wrong with the results or "",
    and what of them was checked."""

    rolled: bool
    array_bytes: int
    rounds: list[Timing] = field(default_factory=list)
    wrong: str = ""
    checked: str = ""

    @property
    def name(self) -> str:
        return "rolled" if self.rolled else "unrolled"

    @property
    def timing(self) -> Timing:
        """All runs."""
        return reduce(Timing.then, self.rounds)

    @property
    def rates(self) -> NDArray[np.float64]:
        """GB/s of every run, shape (rounds,)."""
        return self.timing.gigabytes_per_second()


def _too_small(kernel: Kernel, width: str, threads: int) -> Finding:
    reason = "every data set that there is memory and time for leaves lines in a cache; --size names a size"
    return decide.unresolved(_parameter(kernel, width, threads), "GB/s", reason)


def _parameter(kernel: Kernel, width: str, threads: int) -> str:
    return f"bandwidth.memory.{kernel.name}.{width}.threads_{threads}"


Rows = dict[tuple[Kernel, str], list[_Form]]


def _row(kernel: Kernel, width: str, threads: int, forms: list[_Form]) -> Finding:
    """A kernel's rate, or what is wrong with it."""
    parameter = _parameter(kernel, width, threads)
    wrong = next((each.wrong for each in forms if each.wrong), "")
    if wrong:
        return decide.unresolved(parameter, "GB/s", wrong)
    form = _fastest(forms)
    rates = form.rates
    room = PARAMS.placing * float(rates.max())
    found = quantile_of_rounds(rates, RATE, (room, room))
    how = f"{_title(kernel)}, {form.name}, {len(rates)} rounds: {_times(form.timing)}; {form.checked}"
    return decide.measured(parameter, found._replace(low=max(found.low, 0.0)), "GB/s", how, EVIDENCE)


def _fastest(forms: list[_Form]) -> _Form:
    return max(forms, key=lambda form: form.rates.max())


def _run_rounds(context: Context, team: Team, rows: Rows) -> None:
    """Every row once in each round, as far as the budget lasts. The first two run both forms of a row's loop,
    and check their results; those behind them run the faster one."""
    budget = team.budget = Budget(context.machine.facts, PARAMS.fast_seconds if context.fast else PARAMS.seconds)
    for number in budget.rounds(PARAMS.fewest_rounds, PARAMS.rounds):
        for (kernel, width), forms in rows.items():
            context.progress(f"round {number + 1}: {kernel.name}.{width}: {kernel.formula}")
            for form in forms if number < PARAMS.fewest_rounds else [_fastest(forms)]:
                _run(context, team, kernel, width, form)
    team.budget = None


def _run(context: Context, team: Team, kernel: Kernel, width: str, form: _Form) -> None:
    """One run of one form of a kernel. The first one is checked."""
    stream = Stream(kernel, WIDTHS[width], form.array_bytes, rolled=form.rolled)
    first = not form.rounds
    if first:
        _spoil(context, team, stream.array_bytes)
    form.rounds.append(team.time(stream, 1, untimed=0))
    if first:
        form.wrong, form.checked = _validate(context, team, kernel, stream.array_bytes)
    timing = form.timing
    context.evidence[EVIDENCE]["runs"][f"{kernel.name}.{width}.{form.name}"] = {
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
    for first in range(0, elements, PARAMS.chunk):
        yield first, min(PARAMS.chunk, elements - first)


def _initialise(context: Context, team: Team, array_bytes: int) -> None:
    """Numbers into b and c, which no kernel of the table changes, of every thread."""
    numbers = numbers_of(context.machine)
    if numbers is None:
        return  # `fill` has put some there already
    spacing = array_spacing(array_bytes) // 8
    for region in team.regions:
        for array in (1, 2):
            for first, count in _chunks(array_bytes):
                numbers.write_numbers(region, _values(array, first, count), array * spacing + first)


def _spoil(context: Context, team: Team, array_bytes: int) -> None:
    """Other numbers into a: results left from the kernel before would pass for those of the next."""
    numbers = numbers_of(context.machine)
    if numbers is None:
        return
    for region in team.regions:
        for first, count in _chunks(array_bytes):
            numbers.write_numbers(region, np.full(count, -1.0), first)


def _validate(context: Context, team: Team, kernel: Kernel, array_bytes: int) -> tuple[str, str]:
    """(what is wrong or "", what was checked): every element of a, on every CPU."""
    numbers = numbers_of(context.machine)
    if numbers is None:
        return "", "not validated: this machine's memory holds no numbers"
    assert kernel.expected is not None  # all kernels of the table store
    for cpu, region in zip(team.cpus, team.regions, strict=True):
        for first, count in _chunks(array_bytes):
            b, c = (_values(array, first, count) for array in (1, 2))
            expected = kernel.expected([b, b, c])[0]
            found = numbers.first_difference(region, expected, first)
            if found is not None:
                where = f"a[{first + found.at}] is {found.value}, not {expected[found.at]}"
                reason = f"validation failed on CPU {cpu}: {where}"
                return f"{reason} (s = {SCALAR})", ""
    return "", f"all {array_bytes // 8 * len(team.cpus)} results right"


SCENARIO = Scenario(
    name="stream",
    summary="the classical STREAM table (Copy, Scale, Add, Triad) of memory, validated",
    answer=answer,
    parameters=("bandwidth.memory.",),
    options=(
        Option(name="threads", help="Number of threads. Default: one on every CPU.", type=int),
        Option(
            name="size",
            help="MiB of each array. Default: so that a pass leaves no line in a cache.",
            type=int,
        ),
        WIDTH,
        Option(name="non_temporal", help="Copy and triad with non-temporal stores, too.", flag=True),
    ),
    order=90,
    seconds=5.0,
)
