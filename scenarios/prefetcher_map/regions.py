"""Region prefetchers, which remember the lines that followed a page's first access, and prefetch them elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from setebench.results import Outcome

from .curves import SHIFT, Seen, footprint
from .findings import Report
from .params import Params
from .rules import Asker, Sign, address_bits, ask_kinds

METHOD = "a first access to a page after such accesses to others, and lines that followed those"
ELSEWHERE = "what followed elsewhere comes to level 2: its own prefetcher may bring it"


def remembers(practised: Mapping[str, Seen], params: Params) -> bool:
    """Return whether any further line of the footprint was prefetched after a page's first access alone: a prefetcher
    then seems to remember the footprint of other pages. `practised` has the curve named "practice"."""
    present = np.nan_to_num(practised["practice"].present[0])
    return any(bool(present[line] > 1 - params.came) for line in footprint(len(present), params)[1:])


def report_region(asker: Asker, practised: Mapping[str, Seen]) -> Report:
    """Return the report on a region prefetcher of L1, such as the size of its regions, and whether instructions or
    lines index its table. `practised` has the measured curves of `practices` by name."""
    report, params = Report("l1.region"), asker.params
    seen = practised["practice"]
    *practice, last = seen.curve.trial.accesses
    came = [line for line in footprint(asker.page_lines, params)[1:] if seen.present[0, line] > params.came]
    alone = Asker(asker.trials, asker.fit, params.opened)  # other prefetchers' lines need no training
    came = [line for line in came if alone.share([last], line) < params.lead_share]
    inner = float(np.mean(seen.first[0, came] / seen.present[0, came])) if came and seen.apart > 0.5 else np.nan
    if inner < 1 - params.one_level:
        report.open("present", ELSEWHERE, METHOD)
        return report
    if not came:
        if remembers(practised, params):
            report.open("present", "some lines that followed elsewhere came in some repetitions only", METHOD)
        else:
            report.add("present", False, METHOD, outcome=Outcome.ABSENT)
        return report
    report.add("present", True, METHOD)
    report.add("region_size", asker.line_size << max(came).bit_length(), METHOD)
    ip = any(practised["other line"].present[0, line - SHIFT] > params.came for line in came)
    offset = any(practised["other instruction"].present[0, line] > params.came for line in came)
    if ip and offset:
        report.open("indexed_by", "it goes by any of instruction and line", METHOD)
    else:
        report.add("indexed_by", "ip" if ip else "offset" if offset else "ip+offset", METHOD)
    if not offset:
        address_bits(asker, Sign((*practice, last), came[0]), report)
    ask_kinds(asker, report, seen.curve.trial.accesses, came)
    fills = ["l1"] if inner > params.one_level else asker.fills(seen.curve.trial.accesses, came[0])
    if fills == ["l2"]:  # sampled last, as so many loads of one line teach what follows
        report = Report("l1.region")
        report.open("present", ELSEWHERE, METHOD)
        return report
    report.one_of("fills", fills, METHOD)
    return report
