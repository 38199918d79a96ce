"""Tables of prefetchers: which entry a full one gives up, and whether cores share it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_prefetcher_map import L1_STREAM, L1_STRIDE, L2_STREAM, L2_STRIDE, judged, wrong

from setebench.judge import Verdict
from setebench.sim import spec


@pytest.mark.parametrize(
    ("prefetcher", "identity"),
    [(L1_STRIDE, "l1.stride"), (L2_STRIDE, "l2.stride"), (L1_STREAM, "l1.stream"), (L2_STREAM, "l2.stream")],
    ids=["l1 stride", "l2 stride", "l1 stream", "l2 stream"],
)
def test_a_table_that_gives_up_its_oldest_entry_is_told_from_one_that_keeps_what_is_used(
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


def test_level_one_s_own_tables_belong_to_a_core() -> None:
    judgements = judged(L1_STRIDE, core=spec.Core(cores=2))
    assert judgements["prefetcher.l1.stride.shared_by_cores"].verdict is Verdict.RIGHT


@pytest.mark.parametrize("replacement", ["lru", "fifo"])
def test_streams_of_level_one_are_counted_beside_a_region_prefetcher(replacement: str) -> None:
    region = spec.Region(level=1, fills="l1", region_size_bytes=1024, active_regions=8, trigger=2, indexed_by="offset")
    judgements = judged(region, msgspec.structs.replace(L1_STREAM, replacement=replacement))
    told = [judgements[f"prefetcher.l1.stream.{name}"].verdict for name in ("streams", "replacement")]
    assert told == [Verdict.RIGHT] * 2
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
