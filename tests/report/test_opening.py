"""What a report opens with: the machine as boxes and words, doubts, and the summary."""

from __future__ import annotations

import itertools
from typing import Any

from documents import make_document

from setebench.report.opening import UNVERIFIED, Opening, opening
from setebench.report.sections import Reference
from setebench.report.table import FORMS, render
from setebench.results import Document, Finding, Outcome

SEEN = [
    Finding(parameter="latency.l1", value=4.0, unit="cycles", low=3.9, high=4.1),
    Finding(parameter="latency.l1.vector16", value=4.05, unit="cycles", low=3.9, high=4.2),
    Finding(parameter="latency.l1.vector32", value=4.1, unit="cycles", low=4.0, high=4.2),
    Finding(parameter="latency.l2", value=14.0, unit="cycles", low=13.5, high=14.5),
    Finding(parameter="latency.memory", unit="cycles", outcome=Outcome.UNRESOLVED, reason="between 200.1 and 300.2"),
    Finding(parameter="latency.memory.row_hit", unit="cycles", outcome=Outcome.UNRESOLVED, reason="between 3 and 4"),
    Finding(parameter="cache.l1.size", value=32768, unit="bytes"),
    Finding(parameter="cache.l1.ways", value=8, unit="ways"),
    Finding(parameter="cache.l2.size", value=3 << 20, unit="bytes", outcome=Outcome.AT_LEAST),
    Finding(parameter="cache.l1.inclusive_in_l2", value=True, unit="bool"),
    Finding(parameter="mshr.l1.demand", value=10, unit="entries"),
    Finding(parameter="mshr.l1.prefetch", value=10, unit="entries"),
    Finding(parameter="tlb.l1.entries.4k", value=64, unit="entries"),
    Finding(parameter="tlb.l1.miss_penalty.4k", value=7.0, unit="cycles"),
    Finding(parameter="prefetcher.l1.stride.present", value=True, unit="bool"),
    Finding(parameter="prefetcher.l1.stride.indexed_by", value="ip", unit="string"),
    Finding(parameter="prefetcher.l1.stride.trigger", value=4, unit="accesses"),
    Finding(parameter="prefetcher.l1.stride.degree", value=2, unit="lines"),
    Finding(parameter="prefetcher.l1.stride.max_distance", value=2, unit="lines"),
    Finding(parameter="prefetcher.l1.stride.crosses_4k", value=True, unit="bool"),
    Finding(parameter="prefetcher.l1.stride.streams", unit="streams", outcome=Outcome.UNRESOLVED, reason="noisy"),
    Finding(parameter="prefetcher.l2.pair.present", value=False, unit="bool", outcome=Outcome.ABSENT),
    Finding(parameter="software_prefetch.on_tlb_miss.l1", value=True, unit="bool"),
    Finding(parameter="software_prefetch.on_page_fault", value=False, unit="bool"),
]


def document(findings: list[Finding], facts: Any = None, environment: Any = None, **evidence: Any) -> Document:
    facts = {"siblings": [[0, 2], [1, 3]]} if facts is None else facts
    machine = {"name": "a machine", "facts": facts, "environment": environment or {}}
    return make_document(findings, {"cycles": {"cycles_per_ns": 2.0}, **evidence}, machine, settings={})


def page(findings: list[Finding] = SEEN, **more: Any) -> Opening:
    made = opening(document(findings, **more), [])
    assert made is not None
    return made


def test_boxes_go_from_the_cores_to_memory_with_what_was_found() -> None:
    cores, first, second, memory = page().picture.hierarchy
    assert ("cores", "2, 2 threads each") in cores.facts and ("clock", "2.00 GHz") in cores.facts
    assert dict(first.facts) == {"size": "32 KiB", "ways": "8", "latency": "4.00 cycles, 2.00 ns"}
    assert first.below == "misses in flight: 10"
    assert ("size", "≥ 3 MiB") in second.facts and ("keeps", "all of L1") in second.facts
    assert second.absent == "adjacent line" and ("latency", "open") in memory.facts
    (tlb,) = page().picture.translation
    assert tlb.facts == [("4 KiB pages", "64 entries, a miss costs 7 cycles")]


def test_a_prefetcher_is_reported_in_words_where_it_sits() -> None:
    (one,) = page().picture.hierarchy[1].prefetchers
    assert one.name == "stride by instruction"
    assert one.words == "from access 4, 2 lines at a time, up to 2 lines ahead, crosses 4 KiB, open: streams"


def test_what_is_open_comes_with_its_reason_once() -> None:
    again = Finding(parameter="latency.l2.row_hit", unit="cycles", outcome=Outcome.UNRESOLVED, reason="noisy")
    first, second, third = page([*SEEN, again]).open
    assert (first, second) == ("latency.memory: between 200.1 and 300.2", "latency.memory.row_hit: between 3 and 4")
    assert third == "prefetcher.l1.stride.streams, latency.l2.row_hit: noisy"


def test_what_stands_against_others_words_is_said() -> None:
    said = document([Finding(parameter="cache.l1.size", value=49152, unit="bytes"), SEEN[0]])
    system = document([Finding(parameter="cache.l2.size", value=32 << 20, unit="bytes")])
    references = [Reference(name="book", document=said), Reference(name="system", document=system, complete=False)]
    made = opening(document(SEEN), references)
    assert made is not None and made.against == [
        "cache.l1.size: 32 KiB; published for book: 48 KiB",
        "cache.l2.size: ≥ 3 MiB seen; said by the operating system: 32 MiB",
    ]


def test_the_summary_has_one_row_for_a_parameter() -> None:
    rows = dict(row for group in page().groups for row in group.rows)
    assert rows["L1 cache hit"] == "4.00 cycles [3.90, 4.10], 2.00 ns"
    assert rows["16-byte loads"] == "4.05 cycles [3.90, 4.20], 2.02 ns in L1"
    assert rows["prefetch works"] == "level-1 TLB miss" and rows["prefetch is dropped"] == "page fault"
    assert rows["not there"] == "L2 adjacent line" and rows["memory access"] == "open"


def test_the_verified_line_stands_where_there_is_one() -> None:
    assert page().verified == UNVERIFIED
    assert page(verify={"headline": "predicts 94 %"}).verified == "predicts 94 %"


def test_the_table_opens_with_the_machine_and_the_overview_ends_there() -> None:
    table, overview = (render(document(SEEN), form, width=100) for form in ("table", "overview"))
    assert table.startswith(overview.rstrip("\n"))
    assert "latency.memory.row_hit" in table and "no prefetcher" in overview
    assert "overview" in FORMS


def test_any_odd_value_leaves_a_page() -> None:
    """A result file is anybody's: a value of the wrong kind must not cost the report."""
    names = [each.parameter for each in SEEN] + ["bandwidth.l1.load.64.threads_1", "latency.core_to_core.0-1.modified"]
    odd: tuple[Any, ...] = (["x", 3], "text", True, 1e300, [], -1)
    for value, shift in itertools.product(odd, (0, 1)):
        findings = [Finding(parameter=name, value=value) for name in names[shift:]] + SEEN[:1] * shift
        assert page(findings, facts={"siblings": 3}, environment={"cpu": 3, "hypervisor": []})
