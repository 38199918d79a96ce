"""Search for the families of prefetchers, and their rules, that explain the curves, and for equally good ones.

Every family has a list of possible values for each rule. The model starts empty. The family that explains most of the
lines that others don't is added, and its rules are changed one by one, until nothing improves. Models of nearly the
least cost count as equally good: a rule with one value in all of them is known, a family that others replace is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .curves import Numbers, Seen, steps_of
from .model import BY_PREFETCHER, Model, Requests, Rules, Step, play, play_inner, play_outer, without
from .params import Params

Space = dict[str, tuple[Any, ...]]

TRIGGERS = tuple(range(2, 17))
DEGREES = tuple(range(1, 9))
DISTANCES = (*range(1, 25), 28, 32, 40, 48, 64)
FLAGS = (False, True)
RAMPS = ((), (1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3))
STREAM: Space = {
    "trigger": TRIGGERS, "counts": ("run", "distinct"), "degree": DEGREES, "max_distance": DISTANCES,
    "leads_by": ("new_line", "batch", "access"), "ramp": RAMPS, "crosses_4k": FLAGS,
    "directions": ("both", "up"), "far": (0,),
}  # fmt: skip
STRIDE: Space = {
    "trigger": TRIGGERS[:7], "degree": DEGREES, "max_distance": DISTANCES[:16], "alone": FLAGS, "crosses_4k": FLAGS,
    "directions": ("both", "up"),
}  # fmt: skip
NEXT: Space = {"degree": DEGREES, "crosses_4k": FLAGS}
OUTER: Space = {"fills": ("l2", "l3")}
REQUESTS = {BY_PREFETCHER: (0, 1), **OUTER}
SPACES: dict[str, Space] = {
    "l1.next_line": {"trigger": (1, 2, 3, 4, 5, 6, 8), "only_misses": FLAGS, **NEXT, "fills": ("l1", "l2")},
    "l1.stride": {**STRIDE, "indexed_by": ("ip", "ip+page", "page"), "min_stride": (0, 1, 2), "fills": ("l1", "l2")},
    "l1.stream": {**STREAM, "fills": ("l1", "l2")},
    "l2.next_line": {"trigger": (1,), "only_misses": (True,), **NEXT, **REQUESTS},
    "l2.pair": {**REQUESTS},
    "l2.up_down": {**REQUESTS, "crosses_4k": FLAGS},
    "l2.stride": {**STRIDE, "indexed_by": ("page",), "min_stride": (0,), **REQUESTS},
    "l2.stream": {**STREAM, **OUTER, BY_PREFETCHER: (0, 1, 2)},
}
"""Possible values of each rule, by family; a rule with a single value is part of the family's definition."""
TRIED = {"trigger", "counts", "indexed_by", "directions"}
"""Rules of which every value is tried when a family is added."""
JOINT = (("trigger", "ramp"), ("degree", "leads_by", "max_distance", "alone"))
"""Rules that only explain anything together, and so are changed together."""
APART = ("ordered by address", "page end, not ordered", "stores", "prefetches")
"""Curves that no model is fitted to: accesses in flight at once use up miss entries, which the model doesn't have, and
which kinds of access train a prefetcher is probed for each prefetcher (`rules`)."""
ASCENDING = ("base", "every 5th line", "gaps of two and three")
OWN = (*ASCENDING, "shuffled")
"""Curves in which each access is by an instruction of its own. If families explain these, what none explains in the
others needs one instruction that is repeated."""
ALL = 64
STAGES: tuple[tuple[tuple[str, ...], int], ...] = ((OWN, 1), (OWN, ALL), ((), ALL))
"""Curves (all, if none are named) and largest number of accesses, for which models are fitted one after the other: what
comes by one access, then what needs no instruction that is repeated, is clearest without the rest."""
ONLY_IN = {"crosses_4k": ("page end",)}
"""The curves in which a rule shows; all others don't depend on it."""


def first_rules(name: str) -> dict[str, Any]:
    """Return the rules with which the family `name` is first tried: the first possible value of each rule, but for
    streams a usual degree and distance."""
    usual = {"degree": 2, "max_distance": 16} if name.endswith("stream") else {}
    return {key: usual.get(key, values[0]) for key, values in SPACES[name].items()}


def consistent(rules: Rules) -> bool:
    """Whether rules are worth trying: a degree above the largest distance, or above 1 if `alone`, changes nothing."""
    return "alone" not in rules or rules["degree"] <= (1 if rules["alone"] else rules["max_distance"])


@dataclass(frozen=True)
class Target:
    """What a model's predictions for one curve cost, in lines that they get wrong. `none` is the cost if no line is
    prefetched; `came` is added for every line that is prefetched, `first` for every line that is prefetched into L1.
    Both have shape (counts, lines), and are negative where prefetching the line is right. The curve's accesses are
    `steps`; `rows` are the counts after which lines were timed; `held` are lines (bits) that were in L2 before."""

    steps: Sequence[Step]
    held: int
    rows: Sequence[int]
    none: float
    came: Numbers
    first: Numbers
    inner: dict[Any, Requests] = field(default_factory=dict)

    def cost(self, model: Model, page_lines: int) -> float:
        """Return how many lines the model gets wrong; a line counts in part where its measured share is in doubt."""
        key = tuple((name, *rules.values()) for name, rules in model.items() if name[1] == "1")
        if key not in self.inner:
            self.inner[key] = play_inner(model, self.steps, page_lines)
        after = play_outer(model, self.inner[key], page_lines, self.held)
        inner, anywhere = (_bits([after[row - 1][part] for row in self.rows], self.came.shape[1]) for part in (0, 1))
        return self.none + float(self.came[anywhere].sum() + self.first[inner].sum())


def _bits(masks: Sequence[int], lines: int) -> NDArray[np.bool_]:
    size = lines // 8
    held = b"".join((mask & ((1 << lines) - 1)).to_bytes(size, "little") for mask in masks)
    return np.unpackbits(np.frombuffer(held, dtype=np.uint8).reshape(len(masks), size), axis=1, bitorder="little") > 0


def _furthest(seen: Seen, line_size: int) -> int:
    """Return the largest distance in lines between a prefetched line and the latest access."""
    rows, lines = np.nonzero(np.nan_to_num(seen.present) > 0.5)
    last = seen.curve.last(line_size)
    return int(np.abs(lines - last[rows]).max(initial=1))


def gap_of(curves: Iterable[Seen], line_size: int, params: Params) -> int:
    """Return the distance, in lines, between the first lines of two separate groups of adjacent lines that a prefetcher
    fetches ahead of a run of accesses, 0 if no curve shows two groups. Each curve is read at the fewest accesses after
    which just two show, and the commonest distance is returned."""
    gaps: list[int] = []
    for seen in curves:
        for line, row in zip(seen.curve.last(line_size), np.nan_to_num(seen.present) > params.came, strict=True):
            ahead = row[line + 1 :]
            begins = np.flatnonzero(ahead & ~np.r_[False, ahead[:-1]])
            if len(begins) == 2:
                gaps.append(int(begins[1] - begins[0]))
                break
    return max(gaps, key=gaps.count, default=0)


def target_of(seen: Seen, line_size: int, params: Params) -> Target:
    """Return what predictions for the curve of `seen` cost: the larger the share of repetitions in which a line was in
    a cache, the more (up to 1) to predict that it isn't prefetched, and the less to predict that it is."""
    share = seen.present
    absent = np.nan_to_num(np.maximum((share - params.half) / (1 - params.half), 0) ** 2)
    brought = np.nan_to_num(np.maximum((1 - params.slack - share) / (1 - params.slack), 0) ** 2)
    inner = np.divide(seen.first, share, out=np.full(share.shape, np.nan), where=share > 0.5)
    is_first, is_not = (
        seen.apart * np.nan_to_num(np.maximum(each - params.one_level / 2, 0)) for each in (1 - inner, inner)
    )
    held = sum(1 << line for line in seen.curve.trial.held)
    steps = steps_of(seen.curve.trial.accesses, line_size)[: max(seen.curve.counts, default=0)]
    none, came, first = float(absent.sum()), brought - absent + is_not, is_first - is_not
    return Target(steps, held, seen.curve.counts, none, came, first)


class Fit:
    """Searches for the best model of the curves when it is made, and holds it (`model`). A model's cost is the number
    of lines that it gets wrong; a line counts in part where measurements leave it in doubt."""

    def __init__(self, curves: Mapping[str, Seen], line_size: int, params: Params) -> None:
        self.params, self.line_size = params, line_size
        self.page_lines = (1 << 12) // line_size
        self.curves, self.explains_own = curves, False
        self.gap = gap_of([curves[name] for name in ASCENDING if name in curves], line_size, params)
        self.furthest = max(_furthest(seen, line_size) for seen in curves.values())
        self.ordered = [seen for name, seen in curves.items() if name not in APART]
        # prefetches of L2 into L3 let the line still miss L2, which may explain too much: search with and without them
        self._fills: tuple[str, ...] = ()
        self._searched(("l2",), np.inf)
        found, own = (self.best, self.model), self._own
        if own > params.least_gain:
            self._searched(("l2", "l3"), own - params.least_gain)
            if self._own <= own - params.least_gain:
                found = min(found, (self.best, self.model), key=lambda each: each[0])
        self._look((), ALL)
        self.take(found[1])

    # -- costs ------------------------------------------------------------------------------------------------------

    def _costs(self, model: Model) -> dict[str, float]:
        return {name: self._cost(name, model) for name in self.names}

    def _cost(self, curve: str, model: Model) -> float:
        key = curve, *((name, *rules.items()) for name, rules in model.items())
        if key not in self._seen:
            self._seen[key] = self.targets[curve].cost(model, self.page_lines)
        return self._seen[key]

    def total(self, model: Model, most: float = np.inf, names: Iterable[str] | None = None) -> float:
        """Return the cost of a model over all curves. Only the curves `names` are computed, if given, with the best
        model's costs of the others; the sum stops once it exceeds `most`."""
        chosen = [name for name in self.names if names is None or name in names]
        total = sum(cost for name, cost in self.costs.items() if name not in chosen)
        for name in sorted(chosen, key=lambda each: -self.costs[each]):
            total += self._cost(name, model)
            if total > most:
                break
        return total

    @property
    def best(self) -> float:
        """Cost of the best model over all curves, in lines that it gets wrong."""
        return sum(self.costs.values())

    @property
    def unexplained_part(self) -> float:
        """Cost of the best model over that of an empty one: the share of prefetched lines that stays unexplained."""
        return self.best / max(sum(self._costs({}).values()), self.params.least_gain)

    @property
    def explains(self) -> bool:
        """Whether the model explains nearly all prefetched lines; else its families may only imitate unknown ones."""
        return self.unexplained_part <= self.params.unexplained

    @property
    def strange(self) -> bool:
        """Whether so many lines are unexplained that the behaviour is reported as `other`."""
        return self.unexplained_part > self.params.strange

    @property
    def as_good(self) -> float:
        """Cost up to which a model is as good as the best: the more the best leaves unexplained, the higher."""
        return self.params.as_good + (1 + self.params.as_good_part) * self.best

    def take(self, model: dict[str, Rules]) -> None:
        """Make this the best model, and compute its cost on each curve."""
        self.model, self.costs = model, self._costs(model)

    # -- search -----------------------------------------------------------------------------------------------------

    def _searched(self, fills: tuple[str, ...], most: float) -> None:
        """Search for the best model where L2's prefetchers may fill these levels. It ends early if it costs more than
        `most` in the curves `OWN`, as L2 doesn't see instructions."""
        self._fills, self.model, self._mends, self._own = fills, {}, self.params.mends, 0.0
        for names, accesses in STAGES:
            if not names and self._own > most:
                break
            self._look(names, accesses)
            self._climb()
            self._mend()
            if names:
                self._own = self.best
                self.explains_own |= self.explains and accesses == ALL

    def _look(self, names: Sequence[str], most: int) -> None:
        """From now on, fit the curves of these names (all, if none are given) after `most` accesses at most."""
        self.shown = {name: seen.until(most) for name, seen in self.curves.items() if name in (names or self.curves)}
        self.names = [name for name in self.shown if name not in APART]
        self.targets = {name: target_of(seen, self.line_size, self.params) for name, seen in self.shown.items()}
        self._seen: dict[Any, float] = {}  # costs computed so far, by curve and rules
        self.take(self.model)

    def _climb(self) -> None:
        """Add families as long as that explains more, and remove those that others replace."""
        while self._grow():
            for name in list(self.model):
                if self.total(without(self.model, name)) <= self.best + 0.1:
                    self.take(without(self.model, name))
        for name in list(self.model):
            self._refine(name)

    def _mend(self) -> None:
        """Remove families one by one, to see whether others explain more, or as much with fewer."""
        names = list(self.model)
        while names and self._mends and not self.explains:
            self._mends -= 1
            name, before, best = names.pop(0), self.model, self.best
            self.take(without(before, name))
            for other in self.model:
                self._refine(other)
            while self.best > best - 0.1 and self._grow(name):
                pass
            fewer = len(self.model) < len(before)
            if self.best < best - self.params.least_gain or (fewer and self.best <= best + 0.1):
                self._climb()
                names = list(self.model)
            else:
                self.take(before)

    def _grow(self, barred: str = "") -> bool:
        """Add the family that explains most once its rules are refined; return whether one was added."""
        before, best = self.model, self.best - self.params.least_gain
        candidates = [each for name in SPACES if name not in {*before, barred} for each in self._additions(name)]
        grown = before
        for _, name, model in sorted(candidates, key=lambda each: each[0])[: self.params.tried]:
            self.take(model)
            self._refine(name)
            best, grown = min((best, grown), (self.best, self.model), key=lambda each: each[0])
            self.take(before)
        self.take(grown)
        if grown is not before:
            for each in grown:
                self._refine(each)
        return grown is not before

    def _additions(self, name: str) -> Iterable[tuple[float, str, dict[str, Rules]]]:
        """Return candidates (cost, family, model): the family's best first rules, one for each way to count, judged by
        the curves with most unexplained lines. None where no rules gain enough."""
        screen = sorted(self.names, key=lambda each: (-self.costs[each], each))[: self.params.screened]
        tried = {key: values for key, values in SPACES[name].items() if key in TRIED}
        if name[1] == "2" and any(other[1] == "1" for other in self.model):
            tried[BY_PREFETCHER] = SPACES[name][BY_PREFETCHER]
        if name.endswith(("stream", "stride")):
            starts = self._starts(screen)
            tried["trigger"] = tuple(each for each in tried["trigger"] if each in starts)
        if name.endswith("stream"):
            tried |= {"degree": (2, 1, 4), "far": tuple({0, self.gap})}
        elif name == "l1.stride":
            tried |= {"max_distance": (1, 2, 4, 8), "alone": FLAGS}
        found: dict[Any, tuple[float, str, dict[str, Rules]]] = {}
        for values in product(*tried.values()):
            rules = {**first_rules(name), **dict(zip(tried, values, strict=True))}
            way = rules.get("counts"), rules.get("far"), rules.get("alone")
            for others in self._trained(name):
                least, *_ = found.get(way, (self.best - self.params.least_gain / 2,))
                cost = self.total({**others, name: rules}, least, screen)
                if cost < least:
                    found[way] = cost, name, {**others, name: rules}
        return found.values()

    def _starts(self, names: Iterable[str]) -> set[int]:
        """Return the numbers of accesses after which some curve has its first unexplained line, and their neighbours,
        as a request of L1's prefetchers may count as an access."""
        starts: set[int] = set()
        for seen in (self.shown[name] for name in names):
            rows, counts = np.flatnonzero(self.unexplained(seen).any(axis=1)), (0, *seen.curve.counts)
            starts |= {*range(counts[rows[0]], counts[rows[0] + 1] + 2)} if len(rows) else set()
        return starts

    def _trained(self, name: str) -> Iterator[dict[str, Rules]]:
        """Yield the model, and if the family `name` is of L1 also with L2's prefetchers trained by L1's requests."""
        yield self.model
        outer = {other: max(SPACES[other][BY_PREFETCHER]) for other in self.model if other[1] == "2" and name[1] == "1"}
        for way in (1, 2) if outer else ():
            changed = {other: {**self.model[other], BY_PREFETCHER: min(way, most)} for other, most in outer.items()}
            yield {**self.model, **changed}

    def _refine(self, name: str) -> None:
        """Change the family's rules one by one (those in `JOINT` together) as long as that explains more."""
        changed = True
        while changed:
            changed = False
            for key in SPACES[name]:
                keys = next((each for each in JOINT if key == each[0]), (key,))
                changed |= self._change(name, [each for each in keys if each in SPACES[name]])

    def _change(self, name: str, keys: Sequence[str]) -> bool:
        best, rules = self.best - 1e-6, None
        for values in self._values(name, keys):
            each = {**self.model[name], **dict(zip(keys, values, strict=True))}
            if each != self.model[name] and consistent(each):
                cost = self.total({**self.model, name: each}, best, ONLY_IN.get(keys[0]))
                best, rules = (cost, each) if cost < best else (best, rules)
        if rules is not None:
            self.take({**self.model, name: rules})
        return rules is not None

    def _values(self, name: str, keys: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        """Return values to try together: triggers near the present one, distances that the curves suggest."""
        rules, trigger = self.model[name], self.model[name].get("trigger", 1)
        lead = self.furthest - rules.get("far", 0)
        near = {rules.get("max_distance"), *range(lead - 4, lead + 1), 8, 12, 16, 20, 24, 32}
        distances = near if name.endswith("stream") else range(1, 9)
        limits: dict[str, Any] = {"max_distance": distances, "fills": ("l1", *self._fills)}
        values = product(*([v for v in SPACES[name][key] if v in limits.get(key, SPACES[name][key])] for key in keys))
        if keys[0] != "trigger":
            return values
        same = [rules[key] for key in keys[1:]]
        return [each for each in values if abs(each[0] - trigger) <= 2 or list(each[1:]) == same]

    # -- what is as good --------------------------------------------------------------------------------------------

    def plausible(self, name: str, key: str) -> list[Any]:
        """Return values of the rule `key` of prefetcher `name` that explain the curves about as well as the best."""
        most, rules, values = self.as_good, self.model[name], SPACES[name]
        ways = values.get("leads_by", ("",)) if key == "max_distance" else (rules.get("leads_by", ""),)

        def holds(value: Any) -> bool:
            options = ({**rules, "leads_by": way, key: value} for way in ways)
            models = ({**self.model, name: each} for each in options if consistent(each))
            return any(self.total(model, most, ONLY_IN.get(key)) <= most for model in models)

        return [value for value in values[key] if value == rules[key] or holds(value)]

    def unexplained(self, seen: Seen) -> NDArray[np.bool_]:
        """Return which lines in `seen` were prefetched but aren't in the model, shape (counts, lines)."""
        return (np.nan_to_num(seen.present) > self.params.came) & ~self.brought(seen, self.model)

    def lead(self, seen: Seen, model: Model) -> list[int]:
        """Return how far ahead a model prefetches: in lines, from a run's latest access to the furthest line that the
        model has in a cache. The list has an entry for each of `seen`'s first `params.lead_accesses` counts."""
        first, last = seen.curve.trial.accesses[0].at // self.line_size, seen.curve.last(self.line_size)
        rows = zip(self.brought(seen, model), last, strict=True)
        ahead = [max((np.flatnonzero(row) - line) * (1 if last[-1] > first else -1)) for row, line in rows]
        return [int(each) for each in ahead[: self.params.lead_accesses]]

    def brought(self, seen: Seen, model: Model) -> NDArray[np.bool_]:
        """Return which lines a model has in any cache after the accesses of `seen`, shape (counts, lines)."""
        target = self.targets[seen.curve.name]
        after = play(model, target.steps, self.page_lines, target.held)
        return _bits([after[row - 1][1] for row in target.rows], seen.present.shape[1])
