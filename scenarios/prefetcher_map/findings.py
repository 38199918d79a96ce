"""Findings on prefetchers: presence, each rule of which one value alone explains the curves, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from setebench.results import Finding, Outcome, Value

from .fit import SPACES, Fit, first_rules
from .model import BY_PREFETCHER, without

UNITS = {
    **dict.fromkeys(("trigger", "trigger_by_l1_prefetcher"), "accesses"),
    **dict.fromkeys(("trigger_at_page_edge", "trained_by", "ip_bits", "lead"), "list"),
    **dict.fromkeys(("degree", "max_distance", "far_offset"), "lines"),
    **dict.fromkeys(("directions", "indexed_by", "fills", "leads_by", "counts"), "string"),
    **dict.fromkeys(("streams", "streams_per_page"), "streams"),
    **dict.fromkeys(("max_stride", "region_size"), "bytes"),
}
"""Units of the findings by parameter; all others are truth values."""

EVIDENCE = "prefetchers"
LINES = {"trained_by", "trained_by_l1_prefetcher", "degree", "max_distance", "lead", "leads_by"}
"""Parameters that are inferred from how many lines are prefetched."""
ONE_WAY = ("l2.pair",)
"""Families that prefetch after a single access, whatever their rules: one that doesn't is not there."""
CURVES = "the rules that explain which lines come after 1 to 24 accesses, in sixteen ways"
HIDDEN = "what other prefetchers bring hides its lines; switch those off and run again"
AS_GOOD = "several values explain the curves alike: {}"
EITHER = "at the other level it would explain the curves as well"
BUFFERS = "stream buffers would explain the lines of it and of the other one as well"
UNSURE = "its lines are explained about as well without it"
UNEXPLAINED = "no rules of known families explain most of the lines that come"
PRACTISED = "the furthest line that came ahead of runs, made again and again in other pages"
RUN, OWN_RUN = "one.stride_1", "own.stride_1"


class Report:
    """The findings of one prefetcher (`identity`, such as l1.stride) by parameter, in the order of reporting."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.findings: dict[str, Finding] = {}

    def add(self, parameter: str, value: Value, method: str = CURVES, **fields: Any) -> None:
        """Report a value, found by `method`; it replaces an earlier one of the same parameter."""
        fields = {"outcome": Outcome.MEASURED, "evidence": EVIDENCE, "method": method, **fields}
        name, unit = f"prefetcher.{self.identity}.{parameter}", UNITS.get(parameter.partition(".")[0], "bool")
        self.findings[parameter] = Finding(parameter=name, value=value, unit=unit, **fields)

    def open(self, parameter: str, reason: str, method: str = CURVES) -> None:
        """Report the parameter as unresolved, with the reason why there is no value."""
        self.add(parameter, None, method, outcome=Outcome.UNRESOLVED, reason=reason)

    def one_of(self, parameter: str, values: Sequence[Any], method: str = CURVES) -> None:
        """Report `parameter` as the one of `values`, which all explain the curves; unresolved if there are several."""
        if len(values) == 1:
            self.add(parameter, values[0], method)
        else:
            self.open(parameter, AS_GOOD.format(", ".join(map(str, values))), method)


def named(fit: Fit) -> dict[str, Report]:
    """Return a report on each family of prefetchers at each level, by the model of `fit`. Where a family at one level
    is unresolved, so are the parameters in `LINES` of this family at the other level: lines may be due to either."""
    reports = {name: _family(fit, name) for name in SPACES}
    for name, report in reports.items():
        like = reports.get(f"l{3 - int(name[1])}{name[2:]}")
        if like and like.findings["present"].reason == EITHER:
            report.open("present", EITHER)
        if like and like.findings["present"].value is None and (fit.explains or like.identity in fit.model):
            if like.identity not in fit.model and _would_show(fit, like.identity, fit.params.usual_triggers):
                continue  # it may be there, but starts too late to bring the first lines
            for key in {*report.findings, *(("trained_by",) if report.findings["present"].value else ())} & LINES:
                report.open(key, HIDDEN)
    return reports


def _family(fit: Fit, name: str) -> Report:
    report, there = Report(name), name in fit.model
    gain = fit.total(without(fit.model, name)) - fit.best if there else 0.0
    sure = fit.explains or not fit.model or (not there and name in ONE_WAY)
    if not sure:
        report.open("present", UNEXPLAINED)
    elif there and gain < fit.params.other_lines:
        report.open("present", UNSURE)
    elif there and _like_buffers(fit, name):
        report.open("present", BUFFERS)
    elif there and _at_either_level(fit, name):
        report.open("present", EITHER)
    elif there:
        report.add("present", True)
        _rules(fit, name, report)
    elif _would_show(fit, name, None if name.endswith("stream") else fit.params.usual_triggers):
        report.add("present", False, outcome=Outcome.ABSENT)
    else:
        report.open("present", HIDDEN)
    return report


def _like_buffers(fit: Fit, name: str) -> bool:
    """Whether next lines and a stream of one level may be stream buffers (Jouppi 1990): those bring the next lines of a
    miss, and then a line more at each access that goes on."""
    rules = fit.model.get(f"{name[:2]}.stream")
    pair = name[3:] in ("next_line", "stream") and f"{name[:2]}.next_line" in fit.model
    return pair and rules is not None and rules["trigger"] == 2 and rules["degree"] == 1


def _at_either_level(fit: Fit, name: str) -> bool:
    """Whether the same family at the other level, with the same rules, explains the curves as well."""
    like, rules = f"l{3 - int(name[1])}{name[2:]}", fit.model[name]
    if like not in SPACES or like in fit.model:
        return False
    alike = {key: value for key, value in rules.items() if value in SPACES[like].get(key, ())}
    moved = {**first_rules(like), **alike, "fills": "l2"}
    return fit.total({**without(fit.model, name), like: moved}) <= fit.as_good


def _would_show(fit: Fit, name: str, most: int | None) -> bool:
    """Whether the family, with any rules known from CPUs and one of the first `most` triggers (None: any), would
    prefetch lines, besides those that others bring, that were not prefetched: then it is absent."""
    space, params = SPACES[name], fit.params
    for trigger, fills in product(space.get("trigger", (1,))[:most], space["fills"]):
        rules = {**first_rules(name), BY_PREFETCHER: 0, "trigger": trigger, "fills": fills, "directions": "up"}
        model = {**fit.model, name: rules}
        new = ((seen, fit.brought(seen, model) & ~fit.brought(seen, fit.model)) for seen in fit.ordered)
        if sum(int(np.sum(seen.present[lines] <= params.lead_share)) for seen, lines in new) < params.other_lines:
            return False
    return True


def _rules(fit: Fit, name: str, report: Report) -> None:
    """Report each rule of a family that was found, by the values that explain the curves, and how far it runs ahead."""
    values = {key: fit.plausible(name, key) for key in SPACES[name]}
    if name[1] == "2" and name != "l2.stride" and any(other[1] == "1" for other in fit.model):
        report.one_of("trained_by_l1_prefetcher", sorted({bool(each) for each in values[BY_PREFETCHER]}))
    for key in ("fills", "trigger", "degree", "counts", "leads_by", "directions", "indexed_by", "crosses_4k"):
        if len(SPACES[name].get(key, ())) > 1 and (key != "leads_by" or fit.model[name]["counts"] == "run"):
            report.one_of(key, values[key])
    if fit.model[name].get("alone"):
        report.open("trigger", "an instruction's distances before the run decide")  # Chen and Baer 1995: four states
    if fit.model[name].get("far"):
        report.add("far_offset", fit.model[name]["far"])
    found = values.get("max_distance", values.get("degree", ()))  # a next-line prefetcher reaches as far as its degree
    if len(found) > 1 and "max_distance" in values:
        reason = f"distances of {found[0]} to {found[-1]} lines and more explain the curves alike"
        report.add("max_distance", found[0], outcome=Outcome.AT_LEAST, reason=reason)
    elif found:
        report.one_of("max_distance", found)
    if found:
        _lead(fit, name, values, report)


def _lead(fit: Fit, name: str, values: Mapping[str, Sequence[Any]], report: Report) -> None:
    """Report the lines ahead after each access of a run by one instruction, if all plausible rules agree on them."""
    rules = fit.model[name]
    seen = fit.curves["descending, one instruction" if rules.get("directions") == "down" else "one instruction"]
    variants = [{**rules, key: value} for key, each in values.items() for value in each]
    leads = {tuple(fit.lead(seen, {name: each})) for each in [rules, *variants]}
    if not fit.explains:
        report.open("lead", UNEXPLAINED)
    elif len(leads) == 1:
        report.add("lead", list(leads.pop()))
    else:
        report.open("lead", AS_GOOD.format(" or ".join(" ".join(map(str, each)) for each in sorted(leads)[:3])))


# -- what no family explains -------------------------------------------------------------------------------------------


def others(
    fit: Fit, leads: Mapping[str, list[int]], ahead: Mapping[str, list[int]], remembered: bool = False
) -> Iterator[Report]:
    """Yield for each level a report whether lines are prefetched there that no family explains, and how far ahead of
    repeated runs. `leads` has, by kind of run, the distances in lines after each access; `ahead` has by level all
    distances at which lines come; both are empty if families explain nearly all lines. Where much is unexplained
    (`fit.strange`), several distances of a level show a prefetcher. Else unexplained lines are counted, for L1 if most
    of their loads hit it and the clock distinguishes it from L2, for L2 otherwise; several leave presence unresolved.
    Accesses that are only ordered by address count, too: the model may prefetch more lines than they show, but not
    fewer. If footprints are `remembered`, a region prefetcher of L2 may be hidden, so that nothing is absent there."""
    first = number = 0
    for seen in (*fit.ordered, fit.curves["ordered by address"]):
        came = fit.unexplained(seen)
        number += int(came.sum())
        first += int(np.sum(seen.first[came] > seen.present[came] / 2)) if seen.apart > 0.5 else 0
    lead = [min(each) for each in zip(leads[RUN], leads[OWN_RUN], strict=True)] if leads else []
    for level, lines in (("l1", first), ("l2", number - first)):
        report, distances = Report(f"{level}.other"), ahead.get(level, ())
        if fit.strange and len(distances) >= fit.params.other_lines:  # fewer could be a next-line prefetcher's
            report.add("present", True)
            far, reason = max(distances if level == "l1" else lead), "longer runs may lead by more"
            report.add("max_distance", far, PRACTISED, outcome=Outcome.AT_LEAST, reason=reason)
        elif leads or lines >= fit.params.other_lines or (remembered and level == "l2"):
            report.open("present", f"{lines} lines came to it by no rule that was tried; rules may hide others")
        else:
            report.add("present", False, outcome=Outcome.ABSENT)
        if level == "l1" and leads:
            report.open("lead", "of single lines it isn't known well enough in which level they are")
        for run, each in leads.items() if level == "l2" else ():
            report.add(f"lead.{run}", each, PRACTISED)
        if level == "l2" and report.findings["present"].value:  # lines of one instruction's run may be a stride's
            report.add("lead", lead, PRACTISED)
            report.add("trigger", next(number for number, each in enumerate((*lead, 1), 1) if each), PRACTISED)
        yield report
