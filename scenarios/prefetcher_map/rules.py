"""Rules that the curves don't show: table sizes, instruction address bits, largest strides, page ends and threads.

Each is probed by a *sign*: accesses, some beyond the trigger so that the prefetcher is settled, and a line that this
prefetcher alone prefetches then, as the model says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from setebench.errors import UnsupportedError
from setebench.experiments.presence import PAGE_BYTES, PARAMS, Access, Kind, Trial, Trials
from setebench.results import Outcome, Value

from .curves import Seen, Share, shares_of, steps_of
from .findings import HIDDEN, Report
from .fit import Fit, first_rules
from .model import Rules, play, without
from .params import Params

Answer = bool | None
HUGE_BYTES = 1 << 21
UNCLEAR = "the line came in some repetitions only; run again at a quieter time"
FAR_BIT = 25
"""The highest bit of an instruction address that a probe can set."""
NO_SIGN = "no line comes by it alone"
KINDS = "the same accesses as stores, and as prefetches"


@dataclass(frozen=True)
class Sign:
    """Accesses after which one prefetcher alone loads `line`: if that is in a cache, the prefetcher was at work."""

    accesses: tuple[Access, ...]
    line: int


class Asker:
    """Measures whether accesses make a line prefetched, and finds accesses that one prefetcher alone follows."""

    def __init__(self, trials: Trials, fit: Fit, opened: int) -> None:
        self.trials, self.fit, self.opened, self.params = trials, fit, opened, fit.params
        self.line_size, self.page_lines = trials.line_size, trials.page_lines

    def comes(self, accesses: Sequence[Access], line: int, window: tuple[int, int] | None = None) -> Answer:
        """Return whether `line` is in a cache after these accesses; None if it is in some repetitions and not in
        others. Only the lines with numbers in `window` (first, end; None: all) of its page are flushed before."""
        return self.sure(self.share(accesses, line, window))

    def share(self, accesses: Sequence[Access], line: int, window: tuple[int, int] | None = None) -> float:
        """Return the share of repetitions in which a line is in a cache after these accesses. Lines with numbers in
        `window` (first, end; None: all of the page) are flushed before."""
        trial = Trial(tuple(accesses), window=window, opened=self.opened)
        return self._sampled(trial, line, self.params.repeated)[0]

    def sees(self, level: str, accesses: Sequence[Access]) -> bool:
        """Return whether prefetchers of `level` ("1" or "2") see the last of `accesses`, as it brings its own line into
        L1 (for those of L1) or into any cache (for those of L2)."""
        line = accesses[-1].at // self.line_size
        return self.fills(accesses, line) == ["l1"] if level == "1" else self.comes(accesses, line) is True

    def fills(self, accesses: Sequence[Access], line: int) -> list[str]:
        """Return the levels into which accesses prefetch a line: ["l1"], ["l2"] (or beyond), or both where unclear."""
        trial = Trial(tuple(accesses), opened=self.opened)
        present, *_, first, _ = self._sampled(trial, line, self.params.level_samples, 1)
        part = first / present if present > self.params.lead_share and self.trials.evict else 0.5
        return ["l1"] if part > self.params.one_level else ["l2"] if part < 1 - self.params.one_level else ["l1", "l2"]

    def _sampled(self, trial: Trial, line: int, repetitions: int, controls: int = PARAMS.controls) -> Share:
        cell = line, len(trial.accesses)
        return shares_of(self.trials.sample(trial, [cell], repetitions, controls))[cell]

    def sure(self, share: float) -> Answer:
        """Return whether a line was prefetched, by its share of repetitions in a cache; None where that is unclear."""
        return None if 1 - self.params.came < share < self.params.came else share >= self.params.came

    # -- signs ------------------------------------------------------------------------------------------------------

    def sign(self, name: str) -> Sign | None:
        """Return accesses after which a line is only in a cache if the prefetcher `name` (such as "l2.stream") is at
        work; None if there are none. If possible, they exceed its trigger (how many accesses it waits for)."""
        rules = self.fit.model[name]
        runs = (run for beyond in (self.params.beyond, 1, 0) for run in self._runs(name, rules, beyond))
        return next((found for run in runs if (found := self._shown(name, run)) is not None), None)

    def _runs(self, name: str, rules: Rules, beyond: int) -> list[tuple[Access, ...]]:
        trigger, kind = int(rules.get("trigger", 1)), name[3:]
        if kind in ("next_line", "pair", "up_down"):
            middle = self.page_lines // 2 + 1
            return [tuple(self.made([line] * trigger, 1 if trigger > 1 else None)) for line in (middle, middle + 1)]
        ip = 1 if kind == "stride" and name[1] == "1" else None
        runs = []
        for gap in (5, 3, 2, 1, 7) if kind == "stride" else (1, 2):
            lines = [self.params.first_line + gap * number for number in range(trigger + beyond)]
            if rules["directions"] == "down":
                lines = [self.page_lines - 1 - line for line in lines]
            if min(lines) >= 0 and max(lines) < self.page_lines - gap:
                runs.append(tuple(self.made(lines, ip)))
        return runs

    def made(self, lines: Sequence[int], ip: int | None = None) -> list[Access]:
        """Return loads of these lines of a page, by one instruction `ip` or by distinct ones."""
        return [Access(line * self.line_size, "load", ip) for line in lines]

    def _shown(self, name: str, run: Sequence[Access]) -> Sign | None:
        model, steps = self.fit.model, steps_of(run, self.line_size)
        _, after = play(model, steps, self.page_lines)[-1]
        _, never = play(without(model, name), steps, self.page_lines)[-1]
        before = play(model, steps[:-1], self.page_lines)[-1][1] if len(steps) > 1 else 0
        lines = [line for line in range(self.page_lines) if (after & ~never & ~before) >> line & 1]
        last = steps[-1].line
        for line in sorted(lines, key=lambda each: abs(each - last)):
            early = len(run) > 1 and self.comes(run[:-1], line) is not False  # as where some fills were dropped
            if not early and self.comes(run, line):
                return Sign(tuple(run), line)
        return None


def ask_rules(asker: Asker, reports: Mapping[str, Report]) -> None:
    """Probe how every prefetcher that was found works, such as its longest stride, and add that to its report."""
    for name in asker.fit.model:
        report = reports[name]
        if not report.findings["present"].value:
            continue
        asker.trials.context.progress(f"rules of {name}")
        sign = asker.sign(name)
        family = name[3:]
        if "trained_by" not in report.findings:
            if sign is None:
                report.open("trained_by", NO_SIGN)
            else:
                ask_kinds(asker, report, sign.accesses, [sign.line])
        if sign is not None and (family in ("stream", "stride") or len(sign.accesses) > 1):
            _tables(asker, name, sign, report)
        if family == "stream":
            _stream(asker, name, sign, report)
        elif name == "l1.stride" and sign is not None:
            _stride(asker, sign, report)
        _crossing(asker, name, report)
        _threads(asker, name, sign, report)


def _answer(report: Report, parameter: str, value: Value, method: str) -> None:
    """Report a value, or the parameter as unresolved where the value is None."""
    if value is None:
        report.open(parameter, UNCLEAR, method)
    else:
        report.add(parameter, value, method)


def ask_kinds(asker: Asker, report: Report, accesses: Sequence[Access], lines: Sequence[int]) -> None:
    """Repeat the accesses as stores and as software prefetches in place of loads, and report the kinds that also cause
    all `lines` to be prefetched. A kind whose samples don't agree, its least and largest left out, leaves all open."""
    hints, found = asker.trials.context.machine.facts.prefetch_hints, ["load"]
    kinds: dict[str, Kind] = {"store": "store", **({"prefetch": "t0" if "t0" in hints else "t1"} if hints else {})}
    for word, kind in kinds.items():
        made = [replace(access, kind=kind) if access.kind == "load" else access for access in accesses]
        shares = [min(asker.share(made, line) for line in lines) for _ in range(asker.params.kind_samples)]
        answers = {asker.sure(share) for share in sorted(shares)[1:-1]}
        passed = word == "prefetch" and answers == {False} and not asker.sees(report.identity[1], made)
        if passed or len(answers) > 1 or None in answers:
            reason = "prefetches bring no line to its level here, so it may not see them" if passed else UNCLEAR
            report.open("trained_by", reason, KINDS)
            return
        found += [word] if True in answers else []
    report.add("trained_by", found, KINDS)


# -- tables --------------------------------------------------------------------------------------------------------

TABLES = "a run, others in other pages, and the run taken up again"


def _tables(asker: Asker, name: str, sign: Sign, report: Report) -> None:
    """Report how many runs are followed at once: the number of other runs, each in its own page by its own
    instructions, that make the prefetcher lose the first one, found by bisection."""
    *trained, last = sign.accesses
    run = trained[: max(int(asker.fit.model[name]["trigger"]) - 1, 1)]

    def kept(number: int) -> float:
        pages = range(1, 1 + number)
        others = [replace(each, page=page, ip=None if each.ip is None else 1 + page) for page in pages for each in run]
        return asker.share([*trained, *others, last], sign.line)

    most = asker.params.most_entries
    if kept(1) < 0.5:
        report.open("streams", "a run in another page ends it, or its entry goes by something else", TABLES)
    elif asker.opened:
        report.open("streams", "what remembers footprints may take up a run that was lost", TABLES)
    elif kept(most) >= 0.5:
        report.add("streams", most + 1, TABLES, outcome=Outcome.AT_LEAST, reason="more were not tried: addresses alias")
    else:
        found = largest(lambda number: kept(number) >= 0.5, 1, most)
        tried = (found, found, found + 1, found + 1, min(2 * found, most))  # from new addresses each: some collide
        if [asker.sure(kept(number)) for number in tried] == [True, True, False, False, False]:
            report.add("streams", found + 1, TABLES, low=found + 1, high=found + 1)
        else:
            report.open("streams", f"beside about {found} other runs it is lost little by little", TABLES)


def largest(holds: Callable[[int], Answer], low: int, high: int) -> int:
    """Return by bisection the largest number for which `holds` is true, which it is at `low` and isn't at `high`."""
    return low + bisect_left(range(low + 1, high), True, key=lambda number: not holds(number))


# -- streams -------------------------------------------------------------------------------------------------------


def _stream(asker: Asker, name: str, sign: Sign | None, report: Report) -> None:
    fit, lines = asker.fit, asker.page_lines
    rules = fit.model[name]
    if name == "l2.stream" and len(set(fit.plausible(name, "l1_prefetcher"))) == 1 and rules["l1_prefetcher"] == 2:
        report.add("trigger_by_l1_prefetcher", 1)
    if report.findings["directions"].value != "both" or rules["counts"] != "run":
        return
    firsts = ((0, 1), (1, 1), (lines - 2, -1), (lines - 1, -1)) if len(fit.model) == 1 else ()
    edges = [_edge(asker, first, way, rules["trigger"]) for first, way in firsts]
    found = edges if edges and None not in edges else None
    _answer(report, "trigger_at_page_edge", found, "runs that begin at a page's ends, if nothing else brings lines")
    came = None
    if sign is not None and report.findings["lead"].reason != HIDDEN:
        other = [lines - 3 - number for number in range(max(int(rules["trigger"]) - 1, 2))]
        came = asker.comes([*sign.accesses[:-1], *asker.made(other), sign.accesses[-1]], sign.line)
    number = None if came is None else 1 + came
    _answer(report, "streams_per_page", number, "two runs in turn in one page, one up and one down")


def _edge(asker: Asker, first: int, way: int, trigger: int) -> int | None:
    """Return after how many accesses of a run from a page's end the next line is prefetched; None if unclear."""
    for count in range(1, trigger + 1):
        run = asker.made([first + way * number for number in range(count)])
        if (came := asker.comes(run, first + way * count)) is not False:
            return count if came else None
    return None


# -- strides -------------------------------------------------------------------------------------------------------


def _stride(asker: Asker, sign: Sign, report: Report) -> None:
    fit, size, lines = asker.fit, asker.line_size, asker.page_lines
    trigger = int(fit.model["l1.stride"]["trigger"])
    last = sign.accesses[-1]
    if len(fit.plausible("l1.stride", "indexed_by")) > 1:
        shift = PAGE_BYTES - last.at + 2 * size
        moved = [replace(each, at=each.at + shift) for each in sign.accesses]
        ahead = {2 * moved[-1].at - moved[-2].at, sign.line * size + shift}  # earlier ones may end at the page's end
        came = {asker.comes(moved, each // size, (0, 2 * lines)) for each in ahead}
        found = "ip" if True in came else None if None in came else "ip+page"
        _answer(report, "indexed_by", found, "the last access of a run in the next page")
    address_bits(asker, sign, report)
    by_page = report.findings["indexed_by"].value == "ip+page"
    _largest_stride(asker, trigger, by_page, report)


def address_bits(asker: Asker, sign: Sign, report: Report) -> None:
    """Report by which low bits of their addresses the prefetcher distinguishes instructions. The accesses of `sign`,
    all by one instruction, make a line come. For each bit, another instruction makes the last of them, whose address
    differs in that bit and in a high one (so that code doesn't overlap): if the line stays away, the bit counts."""
    *early, last = sign.accesses

    def other(flip: int) -> Answer:
        return asker.comes([*early, replace(last, flip=1 << FAR_BIT | flip)], sign.line)

    if not other(0):
        report.open("ip_bits", f"addresses that differ in bit {FAR_BIT} alone may be distinguished")
        return
    bits = [other(1 << bit) for bit in range(asker.params.ip_bits)]
    found = None if None in bits or all(bits) else [bit for bit, came in enumerate(bits) if not came]
    _answer(report, "ip_bits", found, "the last access from another address")


def _largest_stride(asker: Asker, trigger: int, by_page: bool, report: Report) -> None:
    """Report the largest stride that is followed, in whole lines; a run may begin in earlier pages."""
    size, lines = asker.line_size, asker.page_lines
    end = (1 if by_page else 4) * lines

    def follows(stride: int) -> Answer:
        run = [end - 2 - stride * number for number in range(trigger, 0, -1)]
        return asker.comes(asker.made(run, 1), end - 2, (0, end))

    most = min(lines - 2, (end - 2) // (trigger + 1))
    if not follows(5):
        report.open("max_stride", UNCLEAR)
    elif follows(most):
        report.add("max_stride", most * size, outcome=Outcome.AT_LEAST, reason="longer ones leave the pages")
    else:
        found = largest(follows, 5, most)
        sure = follows(found + 1) is False
        _answer(report, "max_stride", found * size if sure else None, "strides in whole lines, halving")


ISOLATED = "further strides come ahead of a run by one instruction, and of no run by as many as there are accesses"


def isolated(seen: Seen, leads: Mapping[str, list[int]], line_size: int, params: Params) -> Rules | None:
    """Return the rules of a stride prefetcher that follows each load instruction on its own, or None if nothing shows
    one. `seen` is the curve of a stride of several lines (of `line_size` bytes). `leads` has a list for each curve
    (by name) of runs after earlier ones with the same stride; its entry i - 1 is how many lines beyond the last of i
    accesses prefetches came."""
    lines = [access.at // line_size for access in seen.curve.trial.accesses]
    following = [slice(lines[count - 1] + lines[1] - lines[0], None, 64) for count in seen.curve.counts]
    came = np.nan_to_num(seen.present) >= params.lead_share
    follows = [n for n, row, each in zip(seen.curve.counts, came, following, strict=True) if row[each].any()]
    *_, widest = params.strides
    ahead = [[lead // stride for lead in leads[f"one.stride_{stride}"]] for stride in params.strides[1:]]
    others = any(lead >= widest for lead in leads[f"own.stride_{widest}"])
    if 1 in follows or len(follows) < params.other_lines or others or not any(ahead[-1]):
        return None
    more = [after - before + 1 for each in ahead for before, after in pairwise(each) if 0 < before < after] or [1]
    rules = {"trigger": min(follows), "degree": max(more, key=more.count), "max_distance": max(map(max, ahead))}
    return {**first_rules("l1.stride"), **rules, "min_stride": 2}


def report_stride(asker: Asker, report: Report) -> None:
    """Report a stride prefetcher's rules (from `isolated`), and probe which directions and kinds of access train it."""
    rules = asker.fit.model["l1.stride"]
    report.add("present", True, ISOLATED)
    report.add("trigger", rules["trigger"], ISOLATED)
    report.add("degree", rules["degree"], ISOLATED)
    reason = "the page holds no more"
    report.add("max_distance", rules["max_distance"], ISOLATED, outcome=Outcome.AT_LEAST, reason=reason)
    for name in ("indexed_by", "crosses_4k"):
        report.open(name, "the curves of other prefetchers hide it", ISOLATED)
    *run, following = (asker.params.first_line + 3 * number for number in range(rules["trigger"] + 1))
    last = asker.page_lines - 1
    falls = asker.comes(asker.made([last - line for line in run], 1), last - following)
    report.one_of("directions", {None: ["up", "both"], True: ["both"], False: ["up"]}[falls], ISOLATED)
    report.one_of("fills", asker.fills(asker.made(run, 1), following), "loads of a further stride's line")
    ask_kinds(asker, report, asker.made(run, 1), [following])


# -- pages, threads -----------------------------------------------------------------------------------------


def _crossing(asker: Asker, name: str, report: Report) -> None:
    """Report whether prefetches cross a page's end: in 4 KiB pages if the curves left it open, and in 2 MiB pages."""
    context = asker.trials.context
    if "crosses_4k" not in report.findings:
        return
    if report.findings["crosses_4k"].value is None:
        _goes_on(asker, name, "crosses_4k", report)
    crosses = report.findings["crosses_4k"].value
    if context.large_pages:
        report.open("crosses_4k", "memory lies in larger pages than of 4 KiB (--page-size)")
    if HUGE_BYTES not in context.machine.facts.page_sizes:
        return
    if crosses:
        report.add("crosses_4k_in_2m", True)
        return
    try:
        with context.memory(asker.params.huge_pages * HUGE_BYTES, HUGE_BYTES) as region:
            _goes_on(Asker(Trials(context, region, 1), asker.fit, asker.opened), name, "crosses_4k_in_2m", report)
    except UnsupportedError as error:
        report.open("crosses_4k_in_2m", f"2 MiB pages: {error}")


def _goes_on(asker: Asker, name: str, parameter: str, report: Report) -> None:
    """Report `parameter` by lines of the next page that are only prefetched if this prefetcher crosses, too."""
    lines = asker.page_lines
    crossing = {other: {**rules, "crosses_4k": True} for other, rules in asker.fit.model.items()}
    staying = {**crossing, name: {**crossing[name], "crosses_4k": False}}
    one = asker.fit.curves["page end"].curve.trial.accesses
    own = [replace(access, ip=None) for access in one]
    trigger = int(crossing[name].get("trigger", 1))
    wide = [lines - 1 - 3 * number for number in reversed(range(trigger + asker.params.beyond))]
    for run in (one, own, asker.made([lines - 1] * trigger, 1), asker.made(wide, 1)):
        steps = steps_of(run, asker.line_size)
        then, now = (play(each, steps, lines)[-1][1] for each in (crossing, staying))
        beyond = [line for line in range(lines, 2 * lines) if (then & ~now) >> line & 1][:2]
        answers = [asker.comes(run, line, (0, 2 * lines)) for line in beyond]
        if answers and None not in answers:
            report.add(parameter, any(answers), "a run to the end of 4 KiB")
            return
    report.open(parameter, UNCLEAR)


def _threads(asker: Asker, name: str, sign: Sign | None, report: Report) -> None:
    """Report whether SMT threads share the prefetcher: it follows a run whose first accesses the other one made."""
    facts, own = asker.trials.context.machine.facts, asker.trials.context.own_cpu
    siblings = {cpu for core in facts.siblings if own in core for cpu in core} & {*facts.cpus} - {own}
    remembers = name[3:] in ("stream", "stride", "up_down") or int(asker.fit.model[name].get("trigger", 1)) > 1
    if not (siblings and remembers):
        return
    if sign is None or len(sign.accesses) < 2:
        report.open("shared_by_smt", NO_SIGN)
        return
    *early, last = sign.accesses
    helped = [replace(each, maker=1) for each in early]

    def made(accesses: Sequence[Access]) -> Answer:
        cell, trial = (sign.line, len(accesses)), Trial(tuple(accesses))
        samples = asker.trials.makers(trial, (own, min(siblings)), [cell], asker.params.repeated)
        return asker.sure(shares_of(samples)[cell][0])

    together, alone, never = made([*helped, last]), made(sign.accesses), made(helped)
    found = together if alone and never is False else None
    _answer(report, "shared_by_smt", found, "a run that another thread began")
