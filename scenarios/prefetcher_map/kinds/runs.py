"""Runs through a page, and the visits that make them while all that could bring the same lines is kept quiet.

Runs with gaps have distances that are never equal in a row, so they are no stride, and further than most batches. For
level 1 a run's lines are in level 2, so that level 2's streams, which wait for misses, see none; for level 2 level 1 is
made to forget the page between accesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from setebench.experiments.visits import Access, Visit

from ..found import Question
from ..lab import Lab


@dataclass(frozen=True, kw_only=True)
class Runs:
    """follow_up: hits of level 2 on the next line that draw lines further ahead. near_targets: lines ahead that misses
    bring. scattered: lines of accesses after which an instruction has no distance, one a page: one to leave the state
    of a distance that was right, two to have another one."""

    follow_up: int = 6
    near_targets: int = 4
    scattered: tuple[int, ...] = (11, 27, 6)


R = Runs()
WAYS = (False, True)
"""Upwards, and down."""


def gap_lines(lab: Lab, count: int, down: bool = False, end_odd: bool = True) -> list[int]:
    """`count` lines of a run that ends amid the page, on an odd or an even line."""
    lines = [lab.page_lines // 2 + lab.eighth + 1]
    for number in range(count - 1):
        lines.insert(0, lines[0] - lab.params.gaps[number % 2])
    lines = mirrored(lab, lines, down)
    shift = int((lines[-1] % 2 == 1) != end_odd)
    return [line + shift for line in lines]


def longest_run(lab: Lab) -> int:
    """Accesses that a run with gaps can have: a page of few lines has no room for more."""
    counts = range(lab.params.longest_run, 1, -1)
    return next((count for count in counts if min(gap_lines(lab, count)) >= 0), 1)


def near_lines(lab: Lab, count: int, down: bool, steps: tuple[int, int] = (1, 2)) -> list[int]:
    """`count` lines at these distances in turn, from near the page's end on the side that they come from."""
    lines = [lab.params.lead_from if steps == (1, 1) else lab.eighth]
    for number in range(count - 1):
        lines.append(lines[-1] + steps[number % 2])
    return mirrored(lab, lines, down)


def strided_lines(lab: Lab, stride: int, down: bool, count: int = 0, start: int | None = None) -> list[int]:
    """`count` lines `stride` lines apart; as many as are asked for where there is space, and for the line behind."""
    first = lab.eighth // 2 - 1 if start is None else start
    room = (lab.page_lines - 1 - first) // stride
    return mirrored(lab, [first + stride * number for number in range(count or min(lab.params.stride_run, room))], down)


def mirrored(lab: Lab, lines: Iterable[int], down: bool) -> list[int]:
    """The lines, or, to go down, those as far from the page's other end."""
    return [lab.page_lines - 1 - line if down else line for line in lines]


def uneven(lines: list[int], nearer: bool = False) -> list[int]:
    """As many lines with the same last one, the distances before it never equal twice in a row nor the last one that of
    the run; `nearer`: all shorter than that (which takes a run of three lines apart)."""
    step = lines[-1] - lines[-2]
    sign = 1 if step > 0 else -1
    wide, narrow = (-2, -1) if nearer else (1, -1) if abs(step) > 2 else (2, 1)
    moved = [lines[-1]]
    for number in range(len(lines) - 1):
        moved.insert(0, moved[0] - step - sign * (narrow if number % 2 == 0 else wide))
    return moved


def ahead(lines: Sequence[int], first: int, last: int, down: bool) -> list[int]:
    """The lines from `first` to `last` ahead of a run's last one."""
    return [lines[-1] + (-number if down else number) for number in range(first, last + 1)]


def next_lines(lab: Lab, lines: Sequence[int]) -> tuple[int, ...]:
    """Lines behind some lines, in order of address, in their page and not among them."""
    return tuple(sorted({line + 1 for line in lines if line + 1 < lab.page_lines} - set(lines)))


def kept_warm(lab: Lab, *apart: Iterable[int]) -> tuple[int, ...]:
    """All lines of the page but these: in level 1 already, they silence whatever asks for them."""
    left_out = {line for lines in apart for line in lines}
    return tuple(line for line in range(lab.page_lines) if line not in left_out)


def loads(lab: Lab, lines: Iterable[int]) -> tuple[Access, ...]:
    """Accesses to these lines, each by its own instruction."""
    return tuple(Access(line * lab.line_size) for line in lines)


def placed_visit(lab: Lab, lines: list[int], apart: Sequence[int], hits: Sequence[int] = ()) -> Visit:
    """Accesses that miss level 1 and hit level 2, then hits; all other lines but those `apart` are in level 1."""
    return Visit(loads(lab, [*lines, *hits]), warm=kept_warm(lab, lines, apart), demoted=tuple(sorted(lines)))


def l1_visit(lab: Lab, lines: list[int], down: bool) -> Visit:
    """Accesses that miss level 1 and hit level 2, then hits on the line behind the last one."""
    targets = ahead(lines, lab.params.drawn[0], 2 * R.near_targets, down)
    return placed_visit(lab, lines, targets, ahead(lines, 1, 1, down) * lab.params.repeats)


def l2_visit(lab: Lab, lines: list[int]) -> Visit:
    """Accesses that miss every level, between which level 1 forgets the page; their next lines are in level 1, the last
    one's only where its next-line prefetcher asks each time, for it is what streams bring first."""
    silenced = next_lines(lab, lines if lab.known.next_in_l1 else lines[:-1])
    return Visit(loads(lab, lines), warm=silenced, thrash=True)


def hit_visit(lab: Lab, lines: list[int], hit: Sequence[int], placed: bool = True) -> Visit:
    """A run of misses, then some lines, each pushed out of level 1 before, so that level 2 hears of it; `placed`: it
    has them beforehand, so that none is a further miss where what brought it only reached level 3. Level 1's
    next-line prefetcher may ask for the line behind one that is hit again and again, and level 2's streams take that
    for an access one line further on; where it asks after every access, that goes for the run as well."""
    steps = list(loads(lab, lines))
    for line in hit:
        steps += [Access(line * lab.line_size, "demote"), Access(line * lab.line_size)]
    asking = [*lines, *hit] if lab.known.next_after_hits else []
    warm = {*next_lines(lab, asking), *(next_lines(lab, lines) if lab.known.next_in_l1 else ())}
    demoted = tuple(sorted(set(hit))) if placed else ()
    return Visit(tuple(steps), warm=tuple(sorted(warm - set(demoted))), demoted=demoted, thrash=True)


def l1_question(lab: Lab, lines: list[int], down: bool) -> Question:
    """Lines that come although level 2 sees only hits, and no next line can be asked for."""
    control = l1_visit(lab, lines[-1:], down)
    return Question(l1_visit(lab, lines, down), tuple(ahead(lines, *lab.params.drawn, down)), (control,))


def l2_questions(lab: Lab, lines: list[int], down: bool) -> list[Question]:
    """Lines ahead of a run of misses that the run's last access alone doesn't bring; and, as one access may bring the
    next line anyway, lines further ahead that hits of level 2 on that line bring."""
    single, following = l2_visit(lab, lines[-1:]), ahead(lines, 1, 1, down) * R.follow_up
    misses = Question(l2_visit(lab, lines), tuple(ahead(lines, 1, R.near_targets, down)), (single,))
    control = hit_visit(lab, lines[-1:], following)
    further = tuple(ahead(lines, *lab.params.drawn, down))
    return [misses, Question(hit_visit(lab, lines, following), further, (control,))]


def led_question(
    lab: Lab, lines: list[int], off: tuple[int, int], *, inner: bool = False, chained: bool = False
) -> Question:
    """Whether lines, from the first to the last so many ahead of a run of misses, come, and not with its last access
    alone."""
    visit = Visit(loads(lab, lines), chained=chained)
    targets = tuple(ahead(lines, *off, lines[-1] < lines[0]))
    return Question(visit, targets, (replace(visit, steps=visit.steps[-1:]),), inner)


def dense_question(lab: Lab, count: int, down: bool) -> Question:
    """Whether lines ahead of an uneven run of near lines come to level 1, and neither with the last access nor in
    another order."""
    lines = near_lines(lab, count, down)
    question = led_question(lab, lines, (lab.params.near, lab.params.far), inner=True)
    other = Visit(loads(lab, [*reversed(lines[:-1]), lines[-1]]))
    return replace(question, controls=(*question.controls, other))


def page_question(lab: Lab, lines: list[int], window: int, number: int = 1, nearer: bool = False) -> Question:
    """Whether the line so many strides ahead comes, and not after uneven distances; no control where the page has no
    room for one."""
    step, most = lines[-1] - lines[-2], lab.params.stride_run
    strides = [line for n in range(1, most + 1) if 0 <= (line := lines[-1] + n * step) < window]

    def visit(of: list[int]) -> Visit:
        return Visit(loads(lab, of), warm=kept_warm(lab, of, strides), window=(0, window))

    moved = uneven(lines, nearer)
    fits = min(moved) >= 0 and max(moved) < window
    return Question(visit(lines), tuple(strides[number - 1 : number]), (visit(moved),) if fits else ())


def scattered(lab: Lab) -> tuple[Access, ...]:
    """Accesses of the shared instruction at unequal distances: some prefetchers still know the distance of the visit
    before, and then need fewer accesses."""
    places = enumerate(R.scattered, 1)
    return tuple(Access(line * lab.line_size, ip=lab.params.same_ip, page=page) for page, line in places)


def ip_question(lab: Lab, places: Sequence[int], warm: bool, strides: Iterable[int], pages: int = 1) -> Question:
    """Whether lines so many strides ahead of a run by one instruction come, in one page or more, and not with as many
    instructions. A run is the bytes that it accesses."""
    size, window = lab.line_size, (0, pages * lab.page_lines)
    lines = {place // size for place in places}
    visit = Visit(
        tuple(Access(place, ip=lab.params.same_ip) for place in places),
        warm=tuple(sorted(line for line in lines if line in range(*window))) if warm else (),
        window=window,
        training=scattered(lab),
    )
    control = replace(visit, steps=tuple(Access(place) for place in places))
    following = ((places[-1] + number * (places[-1] - places[-2])) // size for number in strides)
    return Question(visit, tuple(line for line in following if line in range(*window)), (control,))
