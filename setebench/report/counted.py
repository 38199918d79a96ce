"""What was counted of a program, as a table for people and as JSON (docs/counters.md, "Counting a program")."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from setebench import store
from setebench.counters.counted import SCHEMA, Counted, Interval, Region, Run, regions
from setebench.counters.protocol import Count
from setebench.report.text import in_columns
from setebench.text import visible


def render(counted: Counted, form: str) -> str:
    """The text of `counted` in the form table or json, where words that are no UTF-8 become valid text."""
    if form != "json":
        return table(counted)
    document = {
        "schema": SCHEMA,
        "kind": "counters stat",
        "tool": store.this_tool(),
        "program": counted.command,
        "process": None,  # since 0.2 only programs that are started are counted
        "started": counted.started,
        "events": counted.events,
        "runs": [_run(counted.run)],
        "means": None,  # since 0.2 of one run
    }
    return store.pretty(document)


def _run(run: Run) -> dict[str, Any]:
    intervals = ({"begin_seconds": row.begin, "end_seconds": row.end, **_counts(row)} for row in run.intervals)
    return {
        "elapsed_seconds": run.elapsed,
        "status": run.status,
        "signal": signal_name(run.signal),
        "ended_by": signal_name(run.ended_by),
        **_counts(run),
        "intervals": list(intervals),
        "regions": [_region(region) for region in regions(run.regions)],
        "notes": run.notes,
    }


def _region(region: Region) -> dict[str, Any]:
    """A region, or of one that is in `threads` what one thread counted in it."""
    own = {"name": region.name} if region.threads else {"process": region.process, "thread": region.thread}
    own |= {name: getattr(region, name) for name in ("calls", "unended", "seconds")} | _counts(region)
    return own | ({"threads": [*map(_region, region.threads)]} if region.threads else {})


def _counts(counted: Run | Interval | Region) -> dict[str, Any]:
    counts = {}
    for name, each in counted.counts.items():
        times = {"enabled_ns": each.enabled, "running_ns": each.running, "multiplexed": each.shared}
        counts[name] = {"value": each.value, **times, "reason": each.reason or None}
    return {"counts": counts}


def signal_name(number: int | None) -> str | None:
    """SIGINT and so on; the number as text for one without a name, None for none."""
    names = {each.value: each.name for each in signal.Signals}
    return names.get(number, f"signal {number}") if number else None


def table(counted: Counted) -> str:
    """Text for a terminal: counts, intervals, regions, and what is to be known about them below."""
    run, names = counted.run, [event.name for event in counted.events]
    rows = [[event.name, _shown(run.counts, [event.name])[0], event.unit] for event in counted.events]
    intervals = [[f"{row.begin:.3f}", f"{row.end:.3f}", *_shown(row.counts, names)] for row in run.intervals]
    in_regions = [
        [visible(each.name), f"{each.calls:,}", f"{each.seconds:.6f}", *_shown(each.counts, names)]
        for each in regions(run.regions)
    ]
    ended = f"exit status {run.status}" if run.signal is None else f"killed by {signal_name(run.signal)}"
    blocks = [visible(f"{shlex.join(counted.command)}: {run.elapsed:.3f} s, {ended}")]
    for title, heads, lines in (
        ("", ["event", "count", "unit"], rows),
        ("intervals\n", ["from (s)", "to (s)", *names], intervals),
        ("regions\n", ["region", "calls", "seconds", *names], in_regions),
    ):
        if lines:
            blocks.append(title + in_columns(lines, heads, set(heads) - {"event", "unit", "region"}))
    if notes := dict.fromkeys(_notes(counted)):
        blocks.append("\n".join(notes))
    return "\n\n".join(blocks) + "\n"


def _shown(counts: Mapping[str, Count], names: Sequence[str]) -> list[str]:
    found = map(counts.__getitem__, names)
    return ["-" if each.value is None else f"{each.value:,}{'*' * each.shared}" for each in found]


def _notes(counted: Counted) -> Iterator[str]:
    run = counted.run
    for name, count in run.counts.items():
        if count.value is None:
            yield f"{name}: {count.reason}"
        elif count.shared:
            part = 100 * count.running / count.enabled
            yield f"{name}*: its counter ran {part:.1f} % of the time (multiplexing); the count is not scaled"
    for region in regions(run.regions):
        if region.unended:
            yield visible(f"region {region.name}: {region.unended} begins without an end, not counted")
        missing = (name for name, count in region.counts.items() if count.value is None)
        alone = (name for name in missing if run.counts[name].value is not None)
        yield from (visible(f"region {region.name}: {name}: {region.counts[name].reason}") for name in alone)
    yield from run.notes
    for event in counted.events:
        if event.user_only:
            yield f"{event.name}: without what happens in the kernel, as there is no right to count there"
        if event.scope != "thread":
            yield f"{event.name}: of a whole {event.scope}, with what others did there meanwhile"
