"""A single access pattern in a short notation: which lines of a page are in which cache level after its accesses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from setebench.errors import UsageError
from setebench.experiments.presence import Access, Kind, Trial, Trials
from setebench.results import Finding

from .curves import shares_of
from .params import Params

KINDS: dict[str, Kind] = {"": "load", "load": "load", "store": "store", "flush": "flush"}
KINDS |= {"t0": "t0", "t1": "t1", "t2": "t2", "nta": "nta", "w": "w"}
HELP = (
    "ask one thing: accesses to a fresh page as LINE, KIND:LINE (store, flush, t0, t1, t2, nta, w) or LINE@NAME where "
    "accesses with one NAME share an instruction address; '4 5 6' is three ascending loads from line 4"
)
MOST = 40
"""Most accesses of a pattern: with more, two instructions could share a prefetcher's table entry."""
_WORD = re.compile(r"(?:(?P<kind>[a-z0-9]+):)?(?P<line>\d+)(?:@(?P<name>\w+))?")


def parse(text: str, page_lines: int, line_size: int) -> Trial:
    """Return the trial that pattern `text` describes. Raises `UsageError` for a word that is no access, or too many."""
    accesses: list[Access] = []
    names: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        found = _WORD.fullmatch(word)
        if found is None or (found["kind"] or "") not in KINDS or int(found["line"]) >= page_lines:
            raise UsageError(f"{word!r} is no access; write LINE, KIND:LINE or LINE@NAME, lines 0 to {page_lines - 1}")
        ip = None if found["name"] is None else names.setdefault(found["name"], len(names))
        accesses.append(Access(int(found["line"]) * line_size, KINDS[found["kind"] or ""], ip))
    if not 0 < len(accesses) <= MOST:
        raise UsageError(f"a pattern has 1 to {MOST} accesses")
    return Trial(tuple(accesses))


def ask(trials: Trials, text: str) -> Iterator[Finding]:
    """Yield the level of each line that is in a cache in most repetitions after the accesses of the pattern `text`."""
    trial, params = parse(text, trials.page_lines, trials.line_size), Params()
    cells = [(line, len(trial.accesses)) for line in range(trials.page_lines)]
    samples = trials.sample(trial, cells, params.first + params.again)
    names = [*samples.controls]
    came = {line: share for (line, _), share in sorted(shares_of(samples).items()) if share[0] > 0.5}
    trials.context.evidence["pattern"] = {"pattern": text, "lines": [*came]}
    for line, (present, low, high, first, level) in came.items():
        inner = names[level] not in ("l1", "l2") or abs(first / present - 0.5) > params.one_level - 0.5
        method = f"{text}: in {present:.0%} of repetitions ({low:.0%} to {high:.0%})"
        value = names[level] if inner else "unclear"
        yield Finding(parameter=f"pattern.line_{line}", value=value, unit="string", method=method, evidence="pattern")
