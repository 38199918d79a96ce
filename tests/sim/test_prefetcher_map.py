"""The map of machines with one prefetcher, with two that hide each other, and with none: nothing may be reported
wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asked
import pytest
from quiet_machines import levels, quiet
from setebench.scenarios.prefetcher_map import SCENARIO

from setebench.judge import Judgement, Verdict
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.files.dump import dump

pytestmark = pytest.mark.long(90)

Judged = Callable[..., dict[str, Judgement]]

SHAPE: dict[str, Any] = {"l3": None, "l2": {"sets": 512}}
NEXT_LINE = spec.NextLine(level=1, fills="l1", trigger=3, streams=8)
ALWAYS_NEXT = spec.NextLine(level=1, fills="l1", trigger=1)
L1_STREAM = spec.Streamer(level=1, fills="l1", trigger=3, degree=2, max_distance=12, streams=16)
L1_STRIDE = spec.Stride(level=1, fills="l1", trigger=3, degree=2, max_distance=4, max_stride_bytes=1024, entries=16)
REGION = spec.Region(level=1, fills="l1", region_size_bytes=2048, active_regions=16, indexed_by="ip+offset")
PAIR = spec.LinePair(level=2, trained_by=("load", "store", "prefetch"))
L2_NEXT = spec.NextLine(level=2, only_misses=True)
L2_STRIDE = spec.Stride(level=2, trigger=3, indexed_by="page", entries=16)
L2_STREAM = spec.Streamer(
    level=2, trigger=4, degree=2, max_distance=16, streams=16, streams_per_page=2, trained_by=("load", "store")
)
UP_DOWN = spec.UpDown(level=2)


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    """What the judge says of a machine with these prefetchers and tables."""

    def judge(*prefetchers: Any, **changes: Any) -> dict[str, Judgement]:
        file, clock = tmp_path / "quiet.toml", spec.Clock(brackets={"lfence": 20.0})
        fields = {"clock": clock, "levels": levels(**SHAPE), **changes}
        file.write_text(dump(spec.Machine(name="quiet", prefetchers=prefetchers, **fields)))
        return asked.judged("prefetcher-map", str(file), "prefetcher.")

    return judge


def of(judgements: dict[str, Judgement], verdict: Verdict) -> set[str]:
    return {name.removeprefix("prefetcher.") for name, judgement in judgements.items() if judgement.verdict is verdict}


def test_nothing_is_reported_of_a_machine_without_prefetchers(judged: Judged) -> None:
    assert {judgement.verdict for judgement in judged().values()} == {Verdict.RIGHT}


@pytest.mark.parametrize(
    ("identity", "prefetcher"),
    [
        ("l1.next_line", NEXT_LINE),
        ("l1.stream", L1_STREAM),
        ("l1.stride", L1_STRIDE),
        ("l1.region", REGION),
        ("l2.pair", PAIR),
        ("l2.next_line", L2_NEXT),
        ("l2.stride", L2_STRIDE),
        ("l2.stream", L2_STREAM),
        ("l2.up_down", UP_DOWN),
    ],
)
def test_one_prefetcher_is_reported_by_its_rules(judged: Judged, identity: str, prefetcher: Any) -> None:
    judgements = judged(prefetcher)
    assert of(judgements, Verdict.WRONG) == set()
    right = of(judgements, Verdict.RIGHT)
    assert f"{identity}.present" in right
    rules = {name for name in judgements if name.startswith(f"prefetcher.{identity}.")}
    rules = {name for name in rules if not name.endswith((".min_stride", ".shared_by_cores"))}  # not measured
    assert len([name for name in right if name.startswith(f"{identity}.")]) >= 0.5 * len(rules)


@pytest.mark.parametrize(
    "prefetchers",
    [
        (ALWAYS_NEXT, L2_NEXT),
        (PAIR, L2_STREAM),
        (L1_STRIDE, L2_STREAM),
        (NEXT_LINE, PAIR, L2_STREAM),
        (UP_DOWN, L2_STREAM),
    ],
    ids=lambda each: " ".join(type(prefetcher).__name__ for prefetcher in each),
)
def test_of_those_that_hide_each_other_nothing_is_reported_wrong(judged: Judged, prefetchers: tuple[Any, ...]) -> None:
    judgements = judged(*prefetchers)
    assert of(judgements, Verdict.WRONG) == set()
    assert [name for name in of(judgements, Verdict.RIGHT) if name.endswith(".present")]


def test_noise_makes_no_wrong_answer(judged: Judged) -> None:
    noise = spec.Noise(interrupt_interval_cycles=2e6)
    judgements = judged(L2_STREAM, PAIR, noise=noise)
    assert of(judgements, Verdict.WRONG) == set()
    assert {"l2.stream.present", "l2.pair.present"} <= of(judgements, Verdict.RIGHT)


def test_pages_of_few_lines_have_streams(judged: Judged) -> None:
    judgements = judged(L2_STREAM, line_size_bytes=128)
    assert of(judgements, Verdict.WRONG) == set()
    assert "l2.stream.present" in of(judgements, Verdict.RIGHT)


def test_a_pattern_says_which_lines_are_where() -> None:
    with closing(quiet(prefetchers=(PAIR,), **SHAPE)) as machine:
        context = Context(machine=machine, options={"pattern": "4 9"})
        found = {each.parameter: each.value for each in SCENARIO.answer(context)}
    assert found == {"pattern.line_4": "l1", "pattern.line_5": "l2", "pattern.line_8": "l2", "pattern.line_9": "l1"}
