"""The software-prefetch scenario on machines of known truth, one for every way of being special."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asked import judged
from small_presets import small

from setebench import registry
from setebench.judge import Verdict
from setebench.sim import spec
from setebench.sim.files.dump import dump

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


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_reported_is_true(name: str, tmp_path: Path) -> None:
    (tmp_path / "machine.toml").write_text(dump(MACHINES[name]()))
    parameters = registry.scenario("software-prefetch").parameters
    verdicts = Counter(
        each.verdict for each in judged("software-prefetch", str(tmp_path / "machine.toml"), *parameters).values()
    )
    assert verdicts[Verdict.WRONG] == 0
    assert verdicts[Verdict.RIGHT] >= 0.9 * verdicts.total()
