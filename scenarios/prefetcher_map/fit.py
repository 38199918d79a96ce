"""Which families of prefetchers, with which rules, explain the curves: named last, and only where no other would do.

Every family has a list of values for each of its rules. The model begins empty; the family whose lines explain most of
what no other does is added, and its rules are changed one after the other, until nothing explains more. What costs no
more than the best is as good: a rule that has one such value is known, a family that others replace is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .curves import Seen
from .model import BY_PREFETCHER, Model, Rules, Step, play
from .params import Params

Numbers = NDArray[np.float64]
Space = dict[str, tuple[Any, ...]]

TRIGGERS = tuple(range(2, 17))
DEGREES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
DISTANCES = (*range(1, 25), 28, 32, 40, 48, 64)
FLAGS = (False, True)
KINDS = {"store": FLAGS, "prefetch": FLAGS}
RAMPS = ((), (1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3))
STREAM: Space = {
    **KINDS, "trigger": TRIGGERS, "counts": ("run", "distinct"), "degree": DEGREES, "max_distance": DISTANCES,
    "leads_by": ("new_line", "batch", "access"), "ramp": RAMPS, "crosses_4k": FLAGS,
    "directions": ("both", "up", "down"), "far": (0,),
}  # fmt: skip
STRIDE: Space = {
    **KINDS, "trigger": TRIGGERS[:7], "degree": DEGREES[:8], "max_distance": DISTANCES[:16], "crosses_4k": FLAGS,
    "directions": ("both", "up", "down"),
}  # fmt: skip
NEXT: Space = {**KINDS, "degree": DEGREES[:8], "crosses_4k": FLAGS}
OUTER: Space = {"fills": ("l2", "l3")}
REQUESTS = {BY_PREFETCHER: (0, 1), **OUTER}
SPACES: dict[str, Space] = {
    "l1.next_line": {"trigger": (1, 2, 3, 4, 5, 6, 8), "only_misses": FLAGS, **NEXT},
    "l1.stride": {**STRIDE, "indexed_by": ("ip", "ip+page", "page"), "min_stride": (0, 1), "fills": ("l1", "l2")},
    "l1.stream": {**STREAM, "fills": ("l1", "l2")},
    "l2.next_line": {**NEXT, **REQUESTS},
    "l2.pair": {**KINDS, **REQUESTS},
    "l2.up_down": {**KINDS, **REQUESTS, "crosses_4k": FLAGS},
    "l2.stride": {**STRIDE, **REQUESTS},
    "l2.stream": {**STREAM, **OUTER, BY_PREFETCHER: (0, 1, 2)},
}
"""Values of each rule; kinds of access come first, as a wrong one of those spoils all others."""
FIXED: dict[str, Rules] = {
    "l1.next_line": {"fills": "l1"},
    "l1.stride": {"level": 1},
    "l2.stride": {"level": 2, "min_stride": 0, "indexed_by": "page"},
    "l2.next_line": {"trigger": 1, "only_misses": True},
}
FIRST: Rules = {"store": True, "prefetch": True}
"""What a family is tried with at first: these, else each rule's first value, but for those that are tried in turn."""
TRIED = {"trigger", "counts", "indexed_by", "directions"}
JOINT = (("trigger", "ramp"), ("degree", "leads_by", "max_distance"))
"""Rules that only together explain anything, and so are changed together."""
OF_RUNS = ("leads_by", "ramp")
"""Rules of streams that only matter where lines in order count."""
ORDERED = {"trigger", "degree", "max_distance"}
"""Rules whose values explain less the further they are from the right one."""
UNORDERED = ("ordered by address", "page end, not ordered")
"""Curves that no model is held against: accesses in flight at once use up miss entries, which it does not know."""
ASCENDING = ("base", "every 5th line", "gaps of two and three", "stores", "prefetches")
ONLY_IN = {
    "store": ("stores",), "prefetch": ("prefetches",), "crosses_4k": ("page end",),
    "min_stride": ("a quarter of a line, one instruction",),
}  # fmt: skip
"""Curves in which alone a rule shows."""


def first_rules(name: str) -> dict[str, Any]:
    """What a family is tried with at first."""
    usual = dict(FIRST) | ({"degree": 2, "max_distance": 16} if name.endswith("stream") else {})
    return {key: usual.get(key, values[0]) for key, values in SPACES[name].items()} | dict(FIXED.get(name, {}))


def consistent(rules: Rules) -> bool:
    """Whether rules differ from others in what they bring: as many strides as come at once are as far as any comes."""
    return "indexed_by" not in rules or rules["degree"] <= rules["max_distance"]


@dataclass(frozen=True)
class Target:
    """What a curve costs a model, in lines: `none` if nothing came by it, and what changes with every line that it has
    come, and come to level 1, shapes (counts, lines)."""

    steps: Sequence[Step]
    held: int
    rows: Sequence[int]
    none: float
    came: Numbers
    first: Numbers

    def cost(self, model: Model, page_lines: int) -> float:
        """Lines that the model gets wrong, those in doubt by how much they are."""
        after = play(model, self.steps, page_lines, self.held)
        inner, anywhere = (_bits([after[row - 1][part] for row in self.rows], self.came.shape[1]) for part in (0, 1))
        return self.none + float(self.came[anywhere].sum() + self.first[inner].sum())


def _bits(masks: Sequence[int], lines: int) -> NDArray[np.bool_]:
    size = lines // 8
    held = b"".join((mask & ((1 << lines) - 1)).to_bytes(size, "little") for mask in masks)
    return np.unpackbits(np.frombuffer(held, dtype=np.uint8).reshape(len(masks), size), axis=1, bitorder="little") > 0


def _furthest(seen: Seen, line_size: int) -> int:
    """How far from its latest access the furthest line is that has come."""
    if seen.curve.trial.window:
        return 1
    accesses = seen.curve.trial.accesses
    last = [accesses[count - 1].at // line_size for count in seen.curve.counts]
    rows, lines = np.nonzero(np.nan_to_num(seen.present) > 0.5)
    return max((abs(int(line) - last[row]) for row, line in zip(rows, lines, strict=True)), default=1)


def gap_of(curves: Iterable[Seen], line_size: int, params: Params) -> int:
    """How far behind the first lines ahead of a run others begin, when there is a gap between them for the first time:
    the commonest distance of several curves, 0 where there is none."""
    gaps: list[int] = []
    for seen in curves:
        for count, row in zip(seen.curve.counts, np.nan_to_num(seen.present) > params.came, strict=True):
            ahead = row[seen.curve.trial.accesses[count - 1].at // line_size + 1 :]
            begins = np.flatnonzero(ahead & ~np.r_[False, ahead[:-1]])
            if len(begins) == 2:
                gaps.append(int(begins[1] - begins[0]))
                break
    return max(gaps, key=gaps.count, default=0)


def target_of(seen: Seen, line_size: int, params: Params) -> Target:
    """The costs of one curve."""
    share = seen.present
    absent = np.nan_to_num(np.maximum((share - params.half) / (1 - params.half), 0) ** 2)
    brought = params.false * np.nan_to_num(np.maximum((1 - params.slack - share) / (1 - params.slack), 0) ** 2)
    inner = np.divide(seen.first, share, out=np.full(share.shape, np.nan), where=share > 0.5)
    if len(seen.names) < 3:
        inner = np.full(share.shape, np.nan)
    is_first, is_not = (
        seen.apart * np.nan_to_num(np.maximum(each - params.one_level / 2, 0)) for each in (1 - inner, inner)
    )
    held = sum(1 << line for line in seen.curve.trial.held)
    steps = seen.curve.steps(line_size)
    none, came, first = float(absent.sum()), brought - absent + is_not, is_first - is_not
    return Target(steps, held, seen.curve.counts, none, came, first)


class Fit:
    """The model that explains some curves best, and what is as good."""

    def __init__(self, curves: Mapping[str, Seen], line_size: int, params: Params) -> None:
        self.params, self.line_size = params, line_size
        self.page_lines = (1 << 12) // line_size
        self.curves = curves
        self.targets = {name: target_of(seen, line_size, params) for name, seen in curves.items()}
        self.names = [name for name in curves if name not in UNORDERED]
        self.gap = gap_of([curves[name] for name in ASCENDING if name in curves], line_size, params)
        self.furthest = max(_furthest(seen, line_size) for seen in curves.values())
        self._seen: dict[Any, float] = {}  # costs that were asked for, by curve and rules
        self._fills: tuple[str, ...] = ("l2",)
        self.take({})
        self._climb()
        self._fills = (
            "l2",
            "l3",
        )  # what level 2's prefetchers bring to level 3 still misses, which hides others at first
        self._begin_again()

    # -- costs ------------------------------------------------------------------------------------------------------

    def _cost_of(self, model: Model) -> float:
        return sum(self._costs(model).values())

    def _costs(self, model: Model) -> dict[str, float]:
        return {name: self._cost(name, model) for name in self.names}

    def _cost(self, curve: str, model: Model) -> float:
        key = curve, *((name, *rules.items()) for name, rules in model.items())
        if key not in self._seen:
            self._seen[key] = self.targets[curve].cost(model, self.page_lines)
        return self._seen[key]

    def total(self, model: Model, most: float = np.inf, names: Iterable[str] | None = None) -> float:
        """Cost over all curves, or, where only some change, with the best model's of the others; what exceeds `most`
        is not summed up."""
        chosen = [name for name in self.names if names is None or name in names]
        total = sum(cost for name, cost in self.costs.items() if name not in chosen)
        for name in chosen:
            total += self._cost(name, model)
            if total > most:
                break
        return total

    @property
    def best(self) -> float:
        """The model's cost."""
        return sum(self.costs.values())

    @property
    def unexplained_part(self) -> float:
        """Of all that came the part that the model leaves unexplained, by cost."""
        return self.best / max(self._cost_of({}), self.params.least_gain)

    @property
    def explains(self) -> bool:
        """Whether the model explains most of what came: else its families only make up for others that have no name."""
        return self.unexplained_part <= self.params.unexplained

    @property
    def strange(self) -> bool:
        """Whether so much stays unexplained that what comes is another behaviour."""
        return self.unexplained_part > self.params.strange

    @property
    def as_good(self) -> float:
        """The cost up to which a model is as good: the more is left unexplained, the less a small difference says."""
        return self.params.as_good + (1 + self.params.as_good_part) * self.best

    def take(self, model: dict[str, Rules]) -> None:
        """Make this the model."""
        self.model, self.costs = model, self._costs(model)

    # -- search -----------------------------------------------------------------------------------------------------

    def _climb(self) -> None:
        """Add families as long as that explains more, and leave out those that others replace."""
        while self._grow():
            for name in list(self.model):
                without = {other: rules for other, rules in self.model.items() if other != name}
                if self.total(without) <= self.best + 0.1:
                    self.take(without)
        for name in list(self.model):
            self._refine(name)

    def _begin_again(self) -> None:
        """Where much stays unexplained, leave out one family after the other, adapt what others made up for, and go on
        from there."""
        for name in list(self.model):
            before, best = self.model, self.best
            if self.explains or name not in before:
                continue
            self.take({other: rules for other, rules in before.items() if other != name})
            for each in self.model:
                self._refine(each)
            self._climb()
            if self.best >= best:
                self.take(before)

    def _grow(self) -> bool:
        """Add the family that explains most once its rules are adapted, of those that promise most."""
        before = self.model, self.costs
        candidates = [each for name in SPACES if name not in self.model for each in self._additions(name, self.model)]
        grown = []
        for _, name, model in sorted(candidates, key=lambda each: each[0])[: self.params.tried]:
            self.take(dict(model))
            for each in (name, *self.model):
                self._refine(each)
            grown.append((self.best, self.model, self.costs))
            self.model, self.costs = before
        cost, model, costs = min(grown, key=lambda each: each[0], default=(np.inf, *before))
        if cost >= self.best - self.params.least_gain:
            return False
        self.model, self.costs = model, costs
        return True

    def _additions(self, name: str, to: dict[str, Rules]) -> Iterator[tuple[float, str, Model]]:
        """The family's best first rules, of each way to count, by the curves of which most is unexplained: none if no
        rules promise anything."""
        costs = self._costs(to)
        screen = sorted({*self.names} - {"stores", "prefetches"}, key=lambda each: (-costs[each], each))
        screen = screen[: self.params.screened]
        stream, runs = name.endswith("stream"), name.endswith(("stream", "stride"))
        starts = self._starts(screen, to)
        triggers = [each for each in SPACES[name].get("trigger", ()) if not runs or each in starts]
        if runs and not triggers:
            return
        for counts, far in product(SPACES[name]["counts"], {0, self.gap}) if stream else (("", 0),):
            space = {**SPACES[name], **({"counts": (counts,), "degree": (2, 1, 4)} if stream else {})}
            tried = {key: values for key, values in space.items() if key in TRIED or (stream and key == "degree")}
            tried |= {"trigger": tuple(triggers)} if triggers else {}
            first = {**first_rules(name), **({"counts": counts, "far": far} if stream else {})}
            options = [{**first, **dict(zip(tried, values, strict=True))} for values in product(*tried.values())]
            models = [{**model, name: rules} for rules in options for model in self._hearing(name, to)]
            best, found = self.best - self.params.least_gain / 2, None
            for model in models:
                cost = self.total(model, best, screen)
                best, found = (cost, model) if cost < best else (best, found)
            if found is not None:
                yield best, name, found

    def _starts(self, names: Iterable[str], model: Model) -> set[int]:
        """Numbers of accesses at which some curve's first unexplained line comes, and those before: a request of level
        1's prefetchers may count as an access."""
        starts = set()
        for seen in (self.curves[name] for name in names):
            if len({step.line for step in self.targets[seen.curve.name].steps}) <= self.params.usual_triggers:
                continue
            rows = np.flatnonzero(self.unexplained(seen, model).any(axis=1))
            starts |= {*range((0, *seen.curve.counts)[rows[0]], seen.curve.counts[rows[0]] + 1)} if len(rows) else set()
        return starts | {each + 1 for each in starts}

    def _hearing(self, name: str, to: dict[str, Rules]) -> list[dict[str, Rules]]:
        """The model, and, where a family of level 1 is to be added, the same with level 2 trained by its requests."""
        outer = {other: max(SPACES[other][BY_PREFETCHER]) for other in to if other[1] == "2" and name[1] == "1"}
        ways = [
            {other: {**to[other], BY_PREFETCHER: min(way, most)} for other, most in outer.items()} for way in (1, 2)
        ]
        return [to, *({**to, **way} for way in ways if way)]

    def _refine(self, name: str) -> None:
        """Change one rule after the other, those of streams' leads together, as long as that explains more."""
        changed = True
        while changed:
            changed = False
            for key in filter(partial(self._matters, name), SPACES[name]):
                keys = next((each for each in JOINT if key == each[0]), (key,))
                changed |= self._change(name, [each for each in keys if self._matters(name, each)])

    def _matters(self, name: str, key: str) -> bool:
        """Whether a family has a rule: streams of distinct lines fetch as much more with each new line."""
        return key in SPACES[name] and (key not in OF_RUNS or self.model[name]["counts"] == "run")

    def _change(self, name: str, keys: Sequence[str]) -> bool:
        before = self.best
        best, rules = before, None
        for values in self._values(name, keys):
            each = {**self.model[name], **dict(zip(keys, values, strict=True))}
            if each == self.model[name] or not consistent(each):
                continue
            cost = self.total({**self.model, name: each}, best, ONLY_IN.get(keys[0]))
            if cost < best - 1e-9:
                best, rules = cost, each
        if rules is None or best >= before - 1e-6:
            return False
        self.take({**self.model, name: rules})
        return True

    def _values(self, name: str, keys: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        """Values of rules to try: of one that is ordered, those near the present one; distances that what was seen
        speaks for."""
        rules = self.model[name]
        if "degree" in keys and name.endswith("stride"):
            return product(DEGREES[:4], DISTANCES[:8])
        if "degree" in keys and name.endswith("stream"):
            lead = self.furthest - rules["far"]
            near = {lead, rules["max_distance"], *(lead - each for each in (1, 2, 3, 4)), 8, 12, 16, 20, 32}
            distances = [each for each in DISTANCES if each in near]
            ways = [SPACES[name][key] for key in keys[1:-1]]
            return product(DEGREES[:8], *ways, distances)
        first, *rest = (self._fills if key == "fills" and name[1] == "2" else SPACES[name][key] for key in keys)
        if keys[0] in ORDERED:
            at = first.index(rules[keys[0]])
            first = first[max(at - 2, 0) : at + 3]
        return product(first, *rest)

    # -- what is as good --------------------------------------------------------------------------------------------

    def plausible(self, name: str, key: str) -> list[Any]:
        """Values of a rule that explain the curves about as well as the best."""
        most, rules, values = self.as_good, self.model[name], SPACES[name][key]

        def holds(value: Any) -> bool:
            if not consistent({**rules, key: value}):
                return False
            ways = SPACES[name]["leads_by"] if key == "max_distance" and self._matters(name, "leads_by") else ("",)
            options = ({**rules, key: value, **({"leads_by": way} if way else {})} for way in ways)
            return any(self.total({**self.model, name: each}, most, ONLY_IN.get(key)) <= most for each in options)

        if key not in ORDERED:
            return [value for value in values if value == rules[key] or holds(value)]
        low = high = values.index(rules[key])
        while low and holds(values[low - 1]):
            low -= 1
        while high < len(values) - 1 and holds(values[high + 1]):
            high += 1
        return list(values[low : high + 1])

    def loss(self, name: str) -> float:
        """What is left unexplained without a family."""
        return self.total({other: rules for other, rules in self.model.items() if other != name}) - self.best

    def missing(self, name: str, rules: Rules) -> int:
        """How many lines that a family would bring by itself don't come, whatever else there is."""
        shares = [seen.present[self._brought(seen, {name: rules})] for seen in self.ordered()]
        return int(sum(np.sum(each <= self.params.lead_share) for each in shares))

    def unexplained(self, seen: Seen, model: Model) -> NDArray[np.bool_]:
        """Lines that come and that a model doesn't bring, shape (counts, lines)."""
        return (np.nan_to_num(seen.present) > self.params.came) & ~self._brought(seen, model)

    def ordered(self) -> list[Seen]:
        """The curves that models are held against."""
        return [self.curves[name] for name in self.names]

    def own(self, seen: Seen, name: str, far: bool = True) -> NDArray[np.bool_]:
        """Lines that come, that one family brings by itself, with or without those far ahead, and that no others bring,
        shape (counts, lines)."""
        without = {other: rules for other, rules in self.model.items() if other != name}
        rules = self.model[name] if far else {**self.model[name], "far": 0}
        mine = self._brought(seen, {name: rules}) & ~self._brought(seen, without)
        return (np.nan_to_num(seen.present) > self.params.came) & mine

    def lead(self, seen: Seen, model: Model) -> list[int]:
        """How far the furthest line that a model brings lies ahead of a curve's run, after its first accesses."""
        lines = [step.line for step in self.targets[seen.curve.name].steps]
        way, last = lines[1] - lines[0], [lines[count - 1] for count in seen.curve.counts]
        ahead = [
            max(way * (np.flatnonzero(row) - line)) for row, line in zip(self._brought(seen, model), last, strict=True)
        ]
        return [int(each) for each in ahead[: self.params.lead_accesses]]

    def _brought(self, seen: Seen, model: Model) -> NDArray[np.bool_]:
        target = self.targets[seen.curve.name]
        after = play(model, target.steps, self.page_lines, target.held)
        return _bits([after[row - 1][1] for row in target.rows], seen.present.shape[1])
