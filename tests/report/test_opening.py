"""What a report opens with: the machine as boxes and words, doubts, and the summary."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

from documents import make_document

from setebench.report.opening import Opening, opening
from setebench.report.table import render
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
    made = opening(document(findings, **more), {})
    assert made is not None
    return made


def test_golden() -> None:
    """The picture from the cores to memory, what is open once for each reason, and the summary."""
    again = Finding(parameter="latency.l2.row_hit", unit="cycles", outcome=Outcome.UNRESOLVED, reason="noisy")
    text = render(document([*SEEN, again]), "overview", width=100)
    golden = Path(__file__).parent / "golden/opening.txt"
    if os.environ.get("SETEBENCH_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert render(document(SEEN), "table", width=100).startswith(render(document(SEEN), "overview", width=100).rstrip())
    assert page(verify={"headline": "predicts 94 %"}).verified == "predicts 94 %"


def test_what_stands_against_others_words_is_said() -> None:
    said = document([Finding(parameter="cache.l1.size", value=49152, unit="bytes"), SEEN[0]])
    system = document([Finding(parameter="cache.l2.size", value=32 << 20, unit="bytes")])
    made = opening(document(SEEN), {"published for book": said, "said by the operating system": system})
    assert made is not None and made.against == [
        "cache.l1.size: 32 KiB; published for book: 48 KiB",
        "cache.l2.size: ≥ 3 MiB seen; said by the operating system: 32 MiB",
    ]


def test_small_heat_maps_show_what_prefetchers_bring() -> None:
    curve = {"levels": ["l1", "l2", "memory"], "counts": [1, 5, 6], "nearest": [[2, -1, 1], [2, 2, 2], [-1, 0, 7]]}
    made = page(prefetchers={"base": curve, "one instruction": {"levels": 3}, "stores": curve})
    assert [each.rows for each in made.maps] == [[" 1 ·o▓", " 6 o█o"]]
    assert made.maps[0].legend == "o accessed, █ l1, ▓ l2, · memory"
    assert all(not page(prefetchers=odd).maps for odd in (3, [curve], {"base": [1]}))


def test_any_odd_value_leaves_a_page() -> None:
    """A result file is anybody's: a value of the wrong kind must not cost the report."""
    names = [each.parameter for each in SEEN] + ["bandwidth.l1.load.64.threads_1", "latency.core_to_core.0-1.modified"]
    odd: tuple[Any, ...] = (["x", 3], "text", True, 1e300, [], -1)
    for value, shift in itertools.product(odd, (0, 1)):
        findings = [Finding(parameter=name, value=value) for name in names[shift:]] + SEEN[:1] * shift
        assert page(findings, facts={"siblings": 3}, environment={"cpu": 3, "hypervisor": []})
