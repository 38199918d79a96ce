"""Tables of prefetchers: which entry a full one gives up, and whether cores share it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from setebench.scenarios.prefetcher_map.found import Found
from setebench.scenarios.prefetcher_map.kinds.page_strides import report_l2_stride
from setebench.scenarios.prefetcher_map.lab import Lab
from setebench.scenarios.prefetcher_map.report import Report
from test_prefetcher_map import L1_STREAM, L1_STRIDE, L2_STREAM, L2_STRIDE, judged, wrong

from setebench.experiments.levels import working_memory
from setebench.experiments.lines.serving import measure_references
from setebench.judge import Verdict
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.files.loader import load
from setebench.sim.machine import open_machine_file
from setebench.sim.truth.parameters import truth

pytestmark = pytest.mark.long(45)


@pytest.mark.parametrize(
    ("prefetcher", "identity"),
    [(L1_STRIDE, "l1.stride"), (L2_STRIDE, "l2.stride"), (L1_STREAM, "l1.stream"), (L2_STREAM, "l2.stream")],
    ids=["l1 stride", "l2 stride", "l1 stream", "l2 stream"],
)
def test_a_table_that_gives_up_its_oldest_entry_is_reported_from_one_that_keeps_what_is_used(
    prefetcher: Any, identity: str
) -> None:
    judgements = judged(msgspec.structs.replace(prefetcher, replacement="fifo"))
    assert judgements[f"prefetcher.{identity}.replacement"].verdict is Verdict.RIGHT
    assert wrong(judgements) == []


@pytest.mark.parametrize("prefetcher", [L2_STREAM, L2_STRIDE], ids=["stream", "stride"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_run_that_another_core_began_goes_on_where_cores_train_one_table(prefetcher: Any, shared: bool) -> None:
    judgements = judged(msgspec.structs.replace(prefetcher, shared_by_cores=shared), core=spec.Core(cores=2))
    identity = "l2.stream" if prefetcher is L2_STREAM else "l2.stride"
    assert judgements[f"prefetcher.{identity}.shared_by_cores"].verdict is Verdict.RIGHT
    assert wrong(judgements) == []


@pytest.mark.parametrize("replacement", ["lru", "fifo"])
def test_streams_of_level_one_are_counted_beside_a_region_prefetcher(replacement: str) -> None:
    region = spec.Region(level=1, fills="l1", region_size_bytes=1024, active_regions=8, trigger=2, indexed_by="offset")
    judgements = judged(region, msgspec.structs.replace(L1_STREAM, replacement=replacement))
    reported = [judgements[f"prefetcher.l1.stream.{name}"].verdict for name in ("streams", "replacement")]
    assert reported == [Verdict.RIGHT] * 2
    assert wrong(judgements) == []


def test_runs_that_a_region_prefetcher_has_seen_take_no_further_entries_of_streams() -> None:
    """It brings the lines of such a run with its first access: to streams, which hear of loads alone, the run's last
    one, far from the first, is another run in that page."""
    region = spec.Region(
        level=1, fills="l1", region_size_bytes=1024, active_regions=16, entries=32, trigger=2, indexed_by="offset"
    )
    stream = msgspec.structs.replace(L2_STREAM, trained_by=("load",), max_distance=12)
    judgements = judged(region, stream)
    assert judgements["prefetcher.l2.stream.streams"].verdict is Verdict.RIGHT
    assert wrong(judgements) == []


def test_requests_of_level_one_make_no_rule_of_page_strides_wrong() -> None:
    """A first cache of four ways can't hold all lines that its next-line prefetcher would ask for, and the strides of
    level 2 hear those requests too: found on a drawn machine, whose runs were reported to need six accesses for
    four."""
    file = load(str(Path(__file__).parents[1] / "fixtures" / "machine_files" / "next_line_and_page_strides.toml"))
    with closing(open_machine_file(file, 9563)) as machine:
        context = Context(machine=machine, seed=9563, fast=True)
        region = working_memory(context)
        lab = Lab(context, region, measure_references(context, region))
        reported = Report("l2.stride")
        report_l2_stride(lab, None, Found(present=True, down=True, stride=lab.params.stride), reported)
    trigger = next(iter(reported))
    true = {finding.parameter: finding.value for finding in truth(file)}
    assert trigger.value in (None, true[trigger.parameter])
