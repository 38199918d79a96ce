"""Telling by what rules a stride prefetcher of level 1 runs."""

from __future__ import annotations

from setebench.prefetcher_map.instruction_bits import FAR_BITS_MATTER
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.led_runs import LEVEL_UNCLEAR, UNCLEAR, LedRun, tell_led_run
from setebench.prefetcher_map.replacement import MOST_INSTRUCTIONS, of_strides, tell_replacement
from setebench.prefetcher_map.stride_rules import Rules
from setebench.prefetcher_map.strides import Stride
from setebench.prefetcher_map.tell import Told


def tell_stride(lab: Laboratory, huge: Laboratory | None, found: Stride, told: Told) -> None:
    """Ask and tell everything of a stride prefetcher of level 1 that is there."""
    rules = Rules(lab, found)
    sign = -1 if found.down else 1
    method = "equal distances"
    trigger = rules.find_trigger(sign)
    told.value("trigger", trigger, method, UNCLEAR)
    if trigger is None:
        return
    rules.trigger = trigger
    inner = lab.in_l1(*rules.run(trigger, sign * found.stride))
    rules.fills_l1 = inner is True
    ways = {way < 0: rules.brings(*rules.run(trigger, way * found.stride)) for way in (1, -1)}
    visit, target = rules.run(trigger, sign * found.stride)
    tell_led_run(lab, LedRun(visit, target, ways, lambda each: rules.followed(each, target)), method, told)
    if inner is None and lab.known.level_two_listens:  # lines further ahead may be level 2's own doing
        for parameter in ("degree", "max_distance"):
            told.unresolved(parameter, LEVEL_UNCLEAR)
    else:
        _tell_reach(rules, told)
    _tell_table(rules, told)
    told.value("crosses_4k", rules.crosses(lab), "a run to the end of a page", UNCLEAR)
    if huge is not None:
        told.value("crosses_4k_in_2m", rules.crosses(huge), "a run to the end of a page", UNCLEAR)


def _tell_reach(rules: Rules, told: Told) -> None:
    first, later = rules.reach()
    method = "strides ahead after the first triggering access, and after many"
    told.value("degree", first or None, method, UNCLEAR)
    if first and later == first == 1:
        told.at_least("max_distance", 1, method, "it never runs further ahead, so no limit shows")
    else:
        told.value(
            "max_distance",
            later or None,
            method,
            "it does not settle at one distance within the page; look at the chart",
        )


def _tell_table(rules: Rules, told: Told) -> None:
    entries = rules.entries()
    told.value("streams", entries, "runs in many pages, the first continued", UNCLEAR)
    tell_replacement(of_strides(rules), entries, told, MOST_INSTRUCTIONS)
    indexed = rules.indexed_by()
    told.value("indexed_by", indexed, "a run that goes on in the next page", UNCLEAR)
    bits = rules.ip_bits()
    why = f"{UNCLEAR}; or {FAR_BITS_MATTER}"
    told.value("ip_bits", None if bits is None else list(bits), "the last access from another address", why)
    largest = rules.largest(indexed != "ip")
    smallest = rules.smallest(False) or rules.smallest(True)
    if largest is None:
        told.unresolved("max_stride", UNCLEAR)
    elif largest[1]:
        high = largest[0] + rules.lab.line_size - 1
        told.value("max_stride", largest[0], "runs of growing stride", "", largest[0], high)
    else:
        told.at_least("max_stride", largest[0], "runs of growing stride", "no larger stride was asked")
    if smallest is None:
        told.unresolved(
            "min_stride", "neighbouring lines come anyway, or small strides are followed irregularly; try --pattern"
        )
    else:
        told.value("min_stride", smallest[0], "runs of small stride", "", smallest[0], smallest[1])
