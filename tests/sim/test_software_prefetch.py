"""The software-prefetch scenario on machines of known truth, one for every way of being special."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest
from asked import findings
from small_presets import small

from setebench import registry
from setebench.judge import Verdict, judge
from setebench.results import Finding
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import open_machine_file
from setebench.sim.truth.parameters import truth

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


MACHINES = {
    "maps pages": lambda: _changed(on_page_fault=True),
    "drops": lambda: _changed(when_full="drops", on_l2_tlb_miss=False),
    "in order": _in_order,
    "no walks": lambda: _changed(on_l1_tlb_miss=False, on_l2_tlb_miss=False),
}


@cache
def _findings(name: str) -> tuple[Finding, ...]:
    found = findings("software-prefetch", Context(machine=open_machine_file(MACHINES[name](), 3), fast=True))
    return tuple(found.values())


def _reported(name: str) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Values by parameter, and parameters by verdict."""
    found, true = _findings(name), truth(MACHINES[name]())
    verdicts: dict[str, list[str]] = {verdict: [] for verdict in Verdict}
    for each in judge(name, found, true, frozenset(f.parameter for f in true)):
        if each.parameter.startswith(registry.scenario("software-prefetch").parameters):
            verdicts[each.verdict].append(each.parameter)
    return {finding.parameter: finding.value for finding in found}, verdicts


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_reported_is_true(name: str) -> None:
    _, verdicts = _reported(name)
    assert verdicts[Verdict.WRONG] == []
    assert len(verdicts[Verdict.RIGHT]) >= 0.9 * sum(map(len, verdicts.values()))
