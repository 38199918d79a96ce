"""How many neighbouring lines come with an access: counted, not taken from the prefetcher's name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_prefetcher_map import PAIR, UP_DOWN, judged, judged_once, wrong

from setebench.judge import Verdict
from setebench.sim import spec

pytestmark = pytest.mark.long(15)

INNER = st.builds(
    spec.NextLine,
    level=st.just(1),
    fills=st.just("l1"),
    trigger=st.integers(1, 3),
    degree=st.integers(1, 4),
    only_misses=st.booleans(),
)
OUTER_NEXT = spec.NextLine(level=2, only_misses=True)
STREAM = spec.Streamer(level=2, trigger=3, degree=2, max_distance=12)
OUTER = st.builds(spec.NextLine, level=st.just(2), degree=st.integers(1, 8), only_misses=st.booleans())


@settings(max_examples=3, deadline=None)
@given(prefetcher=INNER | OUTER)
def test_next_lines_are_counted_and_are_no_streams(prefetcher: spec.NextLine) -> None:
    judgements = judged(prefetcher)
    assert wrong(judgements) == []
    start = f"prefetcher.l{prefetcher.level}.next_line"
    reported = [judgements[f"{start}.{name}"].verdict for name in ("degree", "max_distance")]
    assert reported == [Verdict.RIGHT] * 2


@pytest.mark.parametrize("prefetcher", [PAIR, UP_DOWN], ids=["pair", "up/down"])
def test_single_neighbours_are_single(prefetcher: spec.Prefetcher) -> None:
    """And no streams, strides or next lines."""
    judgements = judged_once((prefetcher,))
    assert wrong(judgements) == []
    name = "pair" if prefetcher is PAIR else "up_down"
    assert judgements[f"prefetcher.l2.{name}.trained_by"].verdict is Verdict.RIGHT


@pytest.mark.parametrize("fills", ["l1", "l2"])
@pytest.mark.parametrize("beside", [(), (STREAM,)], ids=["alone", "stream"])
def test_a_pair_of_level_one_is_not_taken_for_one_of_level_two(fills: Any, beside: tuple[Any, ...]) -> None:
    """Its lines come to level 1, or though level 2 sees a hit alone."""
    judgements = judged(spec.LinePair(level=1, fills=fills), *beside)
    assert wrong(judgements) == []
    present = [judgements[f"prefetcher.{name}.present"].verdict for name in ("l1.other", "l2.pair")]
    assert present == [Verdict.RIGHT, Verdict.UNRESOLVED]


def test_next_lines_of_level_one_in_level_two_are_not_taken_for_those_of_level_two() -> None:
    """They come though level 2 hears of no access."""
    judgements = judged(spec.NextLine(level=1, fills="l2", degree=2))
    assert wrong(judgements) == []
    names = ("l1.next_line.present", "l1.next_line.degree", "l1.next_line.fills")
    assert [judgements[f"prefetcher.{name}"].verdict for name in names] == [Verdict.RIGHT] * 3
    assert judgements["prefetcher.l2.next_line.present"].verdict is Verdict.UNRESOLVED


def test_what_one_that_is_hidden_brings_is_not_concluded_from_its_name() -> None:
    """Level 1 brings the next line on every access; behind a burst level 2 shows that it has such a prefetcher, too,
    and no more of it."""
    judgements = judged(spec.NextLine(level=1, fills="l1"), spec.NextLine(level=2, only_misses=True, degree=3))
    assert wrong(judgements) == []
    assert judgements["prefetcher.l2.next_line.degree"].verdict is Verdict.UNRESOLVED


REGION = spec.Region(level=1, fills="l2", region_size_bytes=2048, active_regions=8)


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("asking", [spec.NextLine(level=1, fills="l1", trigger=2), REGION], ids=["next line", "region"])
@pytest.mark.parametrize("listening", [spec.LinePair(level=2), OUTER_NEXT, STREAM], ids=["pair", "next line", "stream"])
def test_whether_requests_of_level_one_train_level_two(
    trains: bool, asking: spec.Prefetcher, listening: spec.Prefetcher
) -> None:
    trained_by = ("load", "l1_prefetcher") if trains else ("load",)
    judgements = judged_once((asking, msgspec.structs.replace(listening, trained_by=trained_by)))
    assert wrong(judgements) == []
    (name,) = (each for each in judgements if each.endswith(".trained_by_l1_prefetcher"))
    assert judgements[name].verdict is (Verdict.RIGHT if listening is not STREAM else Verdict.UNRESOLVED)
