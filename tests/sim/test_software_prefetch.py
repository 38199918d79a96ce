"""The software-prefetch scenario on machines of known truth, one for every way of being special."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from typing import Any

import msgspec
import pytest
from small_presets import small
from swept_machines import swept

from setebench import registry
from setebench.judge import Verdict, judge
from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.machine import open_machine_file
from setebench.sim.truth import truth

pytestmark = pytest.mark.long(13)

SMALL_WALK = spec.TlbTable(entries=512, ways=8, miss_penalty_cycles=40.0)


def _changed(**prefetch: Any) -> spec.Machine:
    """`plain` with other software prefetches, and the smallest second TLB that is met."""
    plain = small("plain")
    return msgspec.structs.replace(
        plain,
        software_prefetch=msgspec.structs.replace(plain.software_prefetch, **prefetch),
        tlb=msgspec.structs.replace(plain.tlb, l2_4k=SMALL_WALK),
    )


def _in_order() -> spec.Machine:
    plain = _changed(across_page=False, hints={"t0": spec.Hint(), "nta": spec.Hint(fills="none")})
    core = msgspec.structs.replace(
        plain.core, out_of_order=False, issue_width=1, blocking_load=True, blocking_store=True, cores=1
    )
    return msgspec.structs.replace(plain, core=core)


def _trained() -> spec.Machine:
    stream = spec.Streamer(level=2, trained_by=("load", "prefetch"), trigger=3)
    return msgspec.structs.replace(_changed(on_l1_tlb_miss=False, on_l2_tlb_miss=False), prefetchers=(stream,))


MACHINES = {
    "maps pages": lambda: _changed(on_page_fault=True),
    "drops": lambda: _changed(when_full="drops", on_l2_tlb_miss=False),
    "in order": _in_order,
    "trained": _trained,
}


@cache
def _findings(name: str) -> tuple[Finding, ...]:
    scenario = registry.scenario("software-prefetch")
    with closing(open_machine_file(MACHINES[name](), 3)) as machine:
        return tuple(scenario.answer(swept(machine, seed=3, fast=True)))


def _reported(name: str) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Values by parameter, and parameters by verdict."""
    file = MACHINES[name]()
    scenario = registry.scenario("software-prefetch")
    findings = _findings(name)
    true = truth(file)
    verdicts: dict[str, list[str]] = {verdict: [] for verdict in Verdict}
    for each in judge(name, findings, true, frozenset(f.parameter for f in true)):
        if each.parameter.startswith(scenario.parameters):
            verdicts[each.verdict].append(each.parameter)
    return {finding.parameter: finding.value for finding in findings}, verdicts


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_reported_is_true(name: str) -> None:
    _, verdicts = _reported(name)
    assert verdicts[Verdict.WRONG] == []
    assert len(verdicts[Verdict.RIGHT]) >= 0.9 * sum(map(len, verdicts.values()))


def test_special_machines_are_distinguished_from_plain_ones() -> None:
    """So that an answer that is always the same can't pass for a right one."""
    prefix = "software_prefetch."
    assert _reported("maps pages")[0][f"{prefix}when_full"] == "stalls"
    assert _reported("drops")[0][f"{prefix}when_full"] == "drops"
    assert _reported("drops")[0][f"{prefix}on_tlb_miss.l1"] is True
    assert _reported("drops")[0][f"{prefix}on_tlb_miss.l2"] is False
    assert _reported("maps pages")[0][f"{prefix}on_page_fault"] is True
    assert _reported("drops")[0][f"{prefix}on_page_fault"] is False
    assert _reported("in order")[0][f"{prefix}across_page"] is False
    assert _reported("in order")[0][f"{prefix}fills.nta"] is None  # it may only be silent for now
    assert _reported("in order")[0]["blocking.load"] == "blocking"
    assert _reported("in order")[0]["blocking.store"] == "blocking"
    assert _reported("trained")[0][f"{prefix}trains_hardware"] is True
    assert _reported("trained")[0][f"{prefix}on_tlb_miss.l1"] is False


def test_what_a_machine_lacks_is_unavailable_with_the_reason() -> None:
    findings = {finding.parameter: finding for finding in _findings("in order")}
    assert "no prefetch hint w" in (findings["software_prefetch.fills.w"].reason or "")
    assert "one core" in (findings["software_prefetch.store_after.shared"].reason or "")
