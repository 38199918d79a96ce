"""What was counted of a program, as a table for people, as JSON, and as CSV with one row for each count.

docs/counters.md, section "Counting a program", describes the JSON and the CSV.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from setebench import store
from setebench.counters.counted import SCHEMA, Counted, Interval, Region, Run, regions
from setebench.counters.protocol import Count
from setebench.report.text import csv_table, in_columns
from setebench.text import visible

KIND = "counters stat"
COLUMNS = (
    *("kind", "run", "begin_seconds", "end_seconds", "region", "process", "thread", "calls"),
    *("event", "value", "unit", "enabled_ns", "running_ns", "multiplexed", "reason"),
)
"""Of the CSV."""

TEXTS = ("event", "unit", "region")
"""Columns to the left."""


def render(counted: Counted, form: str) -> str:
    """The text of `counted` in the form table, json or csv."""
    forms: dict[str, Callable[[Counted], str]] = {"table": table, "json": as_json, "csv": as_csv}
    return forms[form](counted)


def as_json(counted: Counted) -> str:
    """One JSON document with a final newline; words that are no UTF-8 become valid text."""
    document = {
        "schema": SCHEMA,
        "kind": KIND,
        "tool": store.this_tool(),
        "program": counted.command,
        "process": None,  # since 0.2 only programs that are started are counted
        "started": counted.started,
        "events": counted.events,
        "runs": [_run(counted.run)],
        "means": None,  # since 0.2 of one run
    }
    return msgspec.json.format(msgspec.json.encode(store.plain(document)), indent=1).decode() + "\n"


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
    def within(one: Region) -> dict[str, Any]:
        return {**{name: getattr(one, name) for name in ("calls", "unended", "seconds")}, **_counts(one)}

    threads = [{"process": each.process, "thread": each.thread, **within(each)} for each in region.threads]
    return {"name": region.name, **within(region), "threads": threads}


def _counts(counted: Run | Interval | Region) -> dict[str, Any]:
    return {"counts": {name: {**_cells(each), "reason": each.reason or None} for name, each in counted.counts.items()}}


def _cells(count: Count) -> dict[str, Any]:
    times = {"enabled_ns": count.enabled, "running_ns": count.running}
    return {"value": count.value, **times, "multiplexed": count.shared, "reason": count.reason}


def signal_name(number: int | None) -> str | None:
    """SIGINT and so on; the number as text for one without a name, None for none."""
    if not number:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def as_csv(counted: Counted) -> str:
    """A head and one row for each count of each run, interval, region and thread of a region."""
    units = {event.name: event.unit for event in counted.events}
    rows = (
        {**place, "event": name, "unit": units[name], **_cells(count), "multiplexed": "yes" if count.shared else "no"}
        for place, counts in _places(counted)
        for name, count in counts.items()
    )
    return csv_table([COLUMNS, *([row.get(column) for column in COLUMNS] for row in rows)])


def _places(counted: Counted) -> Iterator[tuple[dict[str, Any], Mapping[str, Count]]]:
    run = counted.run
    spans = [("total", 0.0, run.elapsed, run.counts), *(("interval", e.begin, e.end, e.counts) for e in run.intervals)]
    for kind, begin, end, counts in spans:
        yield {"kind": kind, "run": 1, "begin_seconds": f"{begin:.6f}", "end_seconds": f"{end:.6f}"}, counts
    for region in regions(run.regions):
        where = {"run": 1, "region": region.name}
        yield {"kind": "region", **where, "calls": region.calls}, region.counts
        for each in region.threads:
            thread = {"process": each.process, "thread": each.thread, "calls": each.calls}
            yield {"kind": "thread", **where, **thread}, each.counts


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
            blocks.append(title + in_columns(lines, heads, set(heads) - set(TEXTS)))
    if notes := dict.fromkeys(_notes(counted)):
        blocks.append("\n".join(notes))
    return "\n\n".join(blocks) + "\n"


def _shown(counts: Mapping[str, Count], names: Sequence[str]) -> list[str]:
    found = (counts[name] for name in names)
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
