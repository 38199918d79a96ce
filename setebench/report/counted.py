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
from setebench.counters.counted import SCHEMA, Counted, Event, Region, Run, regions
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

MOST_THREADS = 16
"""Of a region, that the table shows one by one; JSON and CSV have all."""


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
    intervals = [
        {"begin_seconds": row.begin, "end_seconds": row.end, "counts": _counts(row.counts)} for row in run.intervals
    ]
    return {
        "elapsed_seconds": run.elapsed,
        "status": run.status,
        "signal": signal_name(run.signal),
        "ended_by": signal_name(run.ended_by),
        "counts": _counts(run.counts),
        "intervals": intervals,
        "regions": [_region(region) for region in regions(run.regions)],
        "notes": run.notes,
    }


def _region(region: Region) -> dict[str, Any]:
    threads = [{"process": each.process, "thread": each.thread, **_within(each)} for each in region.threads]
    return {"name": region.name, **_within(region), "threads": threads}


def _within(region: Region) -> dict[str, Any]:
    shown = {name: getattr(region, name) for name in ("calls", "unended", "seconds")}
    return {**shown, "counts": _counts(region.counts)}


def _counts(counts: Mapping[str, Count]) -> dict[str, Any]:
    return {name: {**_cells(count), "reason": count.reason or None} for name, count in counts.items()}


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
    yield _span("total", 0.0, run.elapsed), run.counts
    for row in run.intervals:
        yield _span("interval", row.begin, row.end), row.counts
    for region in regions(run.regions):
        where = {"run": 1, "region": region.name}
        yield {"kind": "region", **where, "calls": region.calls}, region.counts
        for each in region.threads:
            thread = {"process": each.process, "thread": each.thread, "calls": each.calls}
            yield {"kind": "thread", **where, **thread}, each.counts


def _span(kind: str, begin: float, end: float) -> dict[str, Any]:
    return {"kind": kind, "run": 1, "begin_seconds": f"{begin:.6f}", "end_seconds": f"{end:.6f}"}


def table(counted: Counted) -> str:
    """Text for a terminal: counts, intervals, regions, and what is to be known about them below."""
    run, events = counted.run, counted.events
    ended = how_it_ended(run)
    rows = [[event.name, _shown(run.counts[event.name]), event.unit] for event in events]
    parts = [
        visible(f"{shlex.join(counted.command)}: {run.elapsed:.3f} s, {ended}") + "\n",
        _grid(rows, ["event", "count", "unit"]),
    ]
    if run.intervals:
        parts.append(f"intervals\n{_intervals(events, run)}")
    if run.regions:
        parts.append(f"regions\n{_regions(events, run)}")
    notes = "".join(f"{line}\n" for line in dict.fromkeys(_notes(counted)))
    return "\n".join([*parts, notes] if notes else parts)


def how_it_ended(run: Run) -> str:
    """Exit status or signal in words."""
    return f"exit status {run.status}" if run.signal is None else f"killed by {signal_name(run.signal)}"


def _intervals(events: Sequence[Event], run: Run) -> str:
    rows = [
        [f"{row.begin:.3f}", f"{row.end:.3f}", *(_shown(row.counts[event.name]) for event in events)]
        for row in run.intervals
    ]
    return _grid(rows, ["from (s)", "to (s)", *(event.name for event in events)])


def _regions(events: Sequence[Event], run: Run) -> str:
    rows = []
    for region in regions(run.regions):
        rows.append(_region_row(visible(region.name), events, region))
        if 1 < len(region.threads) <= MOST_THREADS:
            rows += [_region_row(f"  thread {each.thread}", events, each) for each in region.threads]
        elif len(region.threads) > 1:
            rows.append([f"  {len(region.threads):,} threads"])
    return _grid(rows, ["region", "calls", "seconds", *(event.name for event in events)])


def _region_row(name: str, events: Sequence[Event], region: Region) -> list[str]:
    counts = (_shown(region.counts[event.name]) for event in events)
    return [name, f"{region.calls:,}", f"{region.seconds:.6f}", *counts]


def _shown(count: Count) -> str:
    if count.value is None:
        return "-"
    return f"{count.value:,}{'*' if count.shared else ''}"


def _grid(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """Columns as wide as their widest cell, numbers to the right."""
    filled = [[*row, *[""] * (len(heads) - len(row))] for row in rows]
    return in_columns(filled, heads, set(heads) - set(TEXTS)) + "\n"


def _notes(counted: Counted) -> Iterator[str]:
    for name, count in counted.run.counts.items():
        if count.value is None:
            yield f"{name}: {count.reason}"
        elif count.shared:
            part = 100 * count.running / count.enabled
            yield f"{name}*: its counter ran {part:.1f} % of the time (multiplexing); the count is not scaled"
    yield from (f"region {visible(line)}" for line in _region_notes(counted.run))
    yield from counted.run.notes
    for event in counted.events:
        if event.user_only:
            yield f"{event.name}: without what happens in the kernel, as there is no right to count there"
        if event.scope != "thread":
            yield f"{event.name}: of a whole {event.scope}, with what others did there meanwhile"


def _region_notes(run: Run) -> Iterator[str]:
    for region in regions(run.regions):
        if region.unended:
            yield f"{region.name}: {region.unended} begins without an end, not counted"
        for name, count in region.counts.items():
            if count.value is None and run.counts[name].value is not None:
                yield f"{region.name}: {name}: {count.reason}"
