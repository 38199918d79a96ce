"""The page docs/machine-files.md, made from the schema.

`python -m setebench.sim.machine_docs > docs/machine-files.md` writes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.dump import literal
from setebench.sim.fields import PREFETCHERS, Field, allowed, is_table, kind_of, table_fields
from setebench.sim.limits import Table

EXAMPLE = """\
name = "tiny"
description = "a small in-order core with a streamer"

[core]
cores = 2
out_of_order = false
blocking_load = true

[[levels]]
sets = 64
ways = 4
latency_cycles = 3
mshr_entries = 4

[[levels]]
sets = 256
ways = 8
latency_cycles = 15
mshr_entries = 12
inclusion = "inclusive"

[memory]
latency_cycles = 180
spread_cycles = 5

[[prefetchers]]
kind = "stream"
level = 2
fills = "l2"
trained_by = ["load", "store"]
trigger = 2
degree = 2
max_distance = 8
"""

HEAD = ("| field | allowed | default | meaning |", "| --- | --- | --- | --- |")

INTRODUCTION = f"""\
# Machine files

<!-- Made by `python -m setebench.sim.machine_docs` from setebench/sim/spec.py, limits.py and fields.py; edit those. -->

A simulated machine is one TOML file. Its truth (`setebench sim truth NAME`) follows from its fields alone, and a
scenario that measures it sees only ticks.

| command | what it does |
| --- | --- |
| `setebench sim list`, `setebench sim show NAME` | lists the shipped machines; prints a machine file |
| `setebench sim truth NAME` | prints what a scenario should find; `--format json` as a result file |
| `setebench sim new FILE` | writes a commented file to start from |
| `setebench SCENARIO --machine sim:NAME` | measures it |

NAME is a shipped machine, `random:SEED`, or the path of a file (with a `/` in it or ending in `.toml`). Shipped are:

- `knc`, `sandybridge`: the machines of Fang et al. 2014, with every value of its Tables I to VI. Each line of the file
  names its source; "chosen" marks what the paper doesn't give.
- `zen-like`: a KVM guest on a Zen 5 EPYC, with coarse counter, trapping `cpuid`, splintered 2 MiB pages and five
  prefetchers. Unpublished values are chosen.
- `plain`: an out-of-order core with a fine and quiet clock and no prefetchers.

`random:SEED` is drawn from the ranges in `setebench/sim/random_ranges.py`: in-order and out-of-order cores, two to four
levels of every policy and index, SMT or not, fine and coarse clocks, quiet to guest noise, every page arrangement,
every combination of prefetchers, and a PMU with half of its events faulty. Half of the machines have prefetchers of the
literature instead (`setebench/sim/random_published.py`).

## A small example

```toml
{EXAMPLE}```

With this as `tiny.toml`, `setebench sim truth tiny.toml` prints, among others, `latency.l2` 15 cycles,
`mshr.l1.prefetch` 4 entries, `mshr.l1.demand` 1 entry (the core blocks on a load, so there is never a second miss)
and `prefetcher.l2.stream.max_distance` 8 lines. Other fields have the defaults below.

A mistake gets one line with the place and what is allowed:

    tiny.toml:11: levels[0].ways: 40 is not allowed; allowed: whole number from 1 to 32

## Conventions

Cycles are core cycles. A latency is the total from load to use on an idle machine with a TLB hit. Numbers may have a
fraction unless the table says "whole number". A field without a default must be given. A file has at most 256 KiB and
lines of at most 1000 characters.
"""

RULES = """\
## Rules across fields

- Each level holds more lines than the one above (sets times slices times ways that the program may fill) and has a
  longer latency; memory, less its spread, is slower than the last level. All caches hold at most 10485760 lines.
- `slices`, `inclusion = "victim"` and a directory are for level 3, `physical_index` and `way_tag_bits` for level 1. A
  level with a directory isn't inclusive, and the directory holds more lines than a core's private caches. A level with
  slices has no `hashed_index`. `qlru` is given if and only if `replacement` is `qlru`.
- A TLB's `entries` divided by its `ways` is a power of two; level 2 is not smaller and not cheaper to miss than level
  1. A fully associative one has at most 4096 entries and no hashed index.
- Rows of memory need banks. `drift` and `jump` are at most 0.2 together. `access_sizes` holds 8 and `page_sizes` holds
  4096. A core that blocks is in-order. `distance_cycles` has a row per core with a number per core, or is empty.
- A prefetcher doesn't fill a level above its own; there is one of a kind per level; what crosses 4 KiB boundaries in
  small pages does so in 2 MiB pages. `next_page` is for level 1. `degree` doesn't exceed `max_distance`;
  `trigger_at_page_edge` has four numbers or none; two streams per page need both directions.
- An event has a kind of fault once, and only those that its role can have: `floor_per_cycle` is for `l1d_inflight_sum`,
  `includes_other_stalls` for `stall_l1d_miss` and `stall_load_any`, `misses_prefetches`, `no_stores` and `other_level`
  for lines, `undercounts_smt` for events of a thread.

## `[origins]`

A file may end with a table that the simulator ignores: for a field, such as `"levels[0].ways"`, the `origin` of its
value (`measured`, `bounded`, `assumed` or `fitted`), and optionally `low`, `high`, `parameters` (findings) and `why`.
`setebench twin` writes it; `setebench.sim.loader.origins` reads it.

## How the truth follows

Most parameters are a field's value. These are not:

- `mshr.lN.demand` and `.prefetch` are misses *in flight*. A blocking core has one. Level 2 never has more demand misses
  than level 1 or the load queue allows. For prefetches the hint that reaches most counts.
- `clock.overhead.METHOD` is in ticks, the file's `brackets` in cycles.
- `cache.lN.size` and `.ways` are what the program can fill: `allocated_ways`, all slices together. `.index` is `hashed`
  where a hash chooses the set or the slice. `.replacement` is `other` for `fifo` and `brrip`.
- `tlb.*.2m` of a machine with splintered pages are those of its tables for 4 KiB pages. `.pages_per_entry.4k` is 1
  where fewer frames are contiguous (`frame_run_pages`) than an entry may hold pages.
- `latency.core_to_core.A-B.STATE` is reported for all ordered pairs of up to 8 cores, beyond that for reads by core 0.
  A shared line without `shared_cycles` comes from level 3 or memory; where level 3 holds victims that depends on the
  line's past, and nothing is reported.
- `latency.memory.row_hit` is `latency_cycles` less `row_hit_saves_cycles`.
- `software_prefetch.store_after.*` is a level-1 hit, after a shared prefetch plus `invalidate_cycles`.
  `.trains_hardware` is left out where only prefetchers that must have learned first are trained.
- `prefetcher.ID.max_distance` of a stream is the furthest start of a batch ahead of an access, the paper's prefetch
  distance; batches end up to `max_distance + degree - 2` lines ahead. One that leads by lines or accesses goes no
  further than `max_distance`. Of a stride it is in strides.
- `prefetcher.ID.lead` and all of `prefetcher.LEVEL.other` come from running the prefetchers' own rules on the sequences
  of [parameters.md](parameters.md#prefetchers-described), in an unlimited level where everything arrives at once.
- Kinds that no family stands for (`pair` at level 1, `region` and `up_down` where they are unusual, and all after
  publications but `stream` and `next_line`) are `LEVEL.other`, and the families that the machine lacks are absent.
  `l2.up_down` is never reported as absent.
- What a prefetcher's name implies is no parameter: `degree`, `max_distance` and `trigger` of `pair` and `up_down`,
  directions of `up_down` and next lines, one access for next lines of level 2, pages for strides of level 2, and that
  tables of level 1 belong to a core. A region's `trigger` counts visits and is not reported.
- `prefetcher.ID.trained_by` leaves out `l1_prefetcher`: that is `.trained_by_l1_prefetcher`, for `pair`, `next_line`,
  `up_down` and `stream` beside a named prefetcher of level 1.
- `bandwidth.LEVEL.load` and `.store`, in the widest accesses, with one thread and with one on every CPU, are the
  narrowest limit: issue, ports, fills, memory's interval, the core's queues, misses in flight over latency. It is a
  range where prefetchers or TLB misses may matter, and left out where that is more than a factor of two, past level 3
  of a machine with four, and for kernels that mix loads and stores. `loaded_latency.peak_bandwidth` is the narrowest
  of what cores share (memory's interval and banks; ports, fills and miss queue of level 3, which nobody outside can
  tell from memory), where the cores' own queues can keep that busy; a range where these are nearly as narrow.
- `counter.ROLE.verdict` lists the faults of the event that can be observed on the machine. `no_counter` is
  `unavailable`; `no_stores`, `background` and `nonlinear` are `untrusted`. `unavailable`, then `zero`, then
  `multiplexed` hide all else; `untrusted` hides all else but `wraps`. Where none of these four holds, `.scale` is one
  over the factor of a `scaled` event (left out for `floor_per_cycle`), and roles that are lines have `.level` and,
  where prefetchers bring some, `.includes_prefetch`.
"""


def render() -> str:
    """The whole page."""
    before, after = (([_section(*one) for one in part]) for part in (_sections_before_kinds(), _sections_behind()))
    return "\n".join(part.strip() + "\n" for part in (INTRODUCTION, *before, _kinds(), *after, RULES))


def _sections_before_kinds() -> Iterator[tuple[Table, str]]:
    """Tables in the order of a file, with the headers that open them, as far as the kinds of prefetchers."""
    yield spec.Machine, "Top of the file"
    yield spec.Clock, "`[clock]`"
    yield spec.Noise, "`[noise]`"
    yield spec.Core, "`[core]`"
    yield spec.VectorExtra, "`[core.vector_load_extra]`"
    yield spec.Level, "`[[levels]]`"
    yield spec.Tlb, "`[tlb]`"
    yield spec.TlbTable, "`[tlb.l1_4k]`, `[tlb.l2_4k]`, `[tlb.l1_2m]`, `[tlb.l2_2m]`"
    yield spec.Memory, "`[memory]`"
    yield spec.RemoteMemory, "`[remote_memory]`"
    yield spec.SoftwarePrefetch, "`[software_prefetch]`"
    yield spec.Hint, "`[software_prefetch.hints.HINT]`"
    yield spec.Prefetcher, "`[[prefetchers]]`: fields of all kinds"


def _sections_behind() -> Iterator[tuple[Table, str]]:
    yield spec.Coherence, "`[coherence]`"
    yield spec.Pmu, "`[pmu]`"
    yield spec.Fault, 'Faults: `[pmu.events]`, as in `l1d_fill = [{kind = "scaled", amount = 2.0}]`'


def _section(table: Table, title: str) -> str:
    lines = [f"## {title}", "", _introduction(table), ""]
    if rows := _rows(table):
        lines += [*HEAD, *rows]
    return "\n".join(lines)


def _kinds() -> str:
    """All kinds of prefetchers in one table: what each does, then the fields of its own."""
    lines = ["## `[[prefetchers]]` by kind", "", *HEAD]
    for table in PREFETCHERS:
        lines += [f'| **`kind = "{kind_of(table)}"`** | | | {_introduction(table, " ")} |', *_rows(table)]
    return "\n".join(lines)


def _rows(table: Table) -> list[str]:
    return [_row(field) for field in table_fields(table).values() if not _inherited(table, field)]


def _introduction(table: Table, between: str = "\n\n") -> str:
    paragraphs = re.split(r"\n\s*\n", table.__doc__ or "")
    return between.join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _inherited(table: Table, field: Field) -> bool:
    """True for what is described once for all prefetchers."""
    return table in PREFETCHERS and field.name in table_fields(spec.Prefetcher)


def _row(field: Field) -> str:
    cells = (f"`{field.name}`", _allowed(field), _default(field), field.meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _allowed(field: Field) -> str:
    if is_table(field.type):
        return f"table `[{field.name}]`"
    if field.name in ("levels", "prefetchers"):
        return f"{field.limit.least} to {field.limit.most} tables `[[{field.name}]]`"
    return allowed(field)


def _default(field: Field) -> str:
    if field.required:
        return "must be given"
    return _default_text(field.default)


def _default_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict) and not any(value.values()):
        return "every key, each with an empty list"
    if isinstance(value, dict):
        plain = [f"`{key} = {literal(inner)}`" for key, inner in value.items() if not _is_record(inner)]
        return ", ".join(plain) or "the usual five, see below"
    if _is_record(value):
        return "see below"
    return f"`{literal(value)}`"


def _is_record(value: Any) -> bool:
    return isinstance(value, msgspec.Struct)


if __name__ == "__main__":
    print(render(), end="")
