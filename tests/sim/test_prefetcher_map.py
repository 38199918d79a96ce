"""The map of machines with one prefetcher, with two that hide each other, and with none: nothing may be reported
wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from msgspec.structs import replace
from quiet_machines import levels, quiet
from setebench.scenarios.prefetcher_map import survey
from setebench.scenarios.prefetcher_map.attributes import report_shared
from setebench.scenarios.prefetcher_map.families import FAMILIES
from setebench.scenarios.prefetcher_map.found import Found
from setebench.scenarios.prefetcher_map.kinds.ip_strides import InstructionRules, find_l1_stride
from setebench.scenarios.prefetcher_map.kinds.page_strides import SHORT_LED, find_l2_stride
from setebench.scenarios.prefetcher_map.kinds.runs import gap_lines, l1_question, l2_questions
from setebench.scenarios.prefetcher_map.kinds.stream_report import Tables
from setebench.scenarios.prefetcher_map.kinds.streams import find_l1_stream
from setebench.scenarios.prefetcher_map.lab import Lab
from setebench.scenarios.prefetcher_map.pattern import ask, charts
from setebench.scenarios.prefetcher_map.report import Report
from swept_machines import swept

from setebench.experiments.busy import Busy
from setebench.experiments.levels import working_memory
from setebench.experiments.lines.serving import References, measure_references
from setebench.experiments.visits import Access, Visit
from setebench.judge import Judgement, Verdict, judge
from setebench.results import Finding
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine
from setebench.sim.truth.families import identity_of
from setebench.sim.truth.parameters import left_open, truth

pytestmark = pytest.mark.long(205)

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
ONE_LINE_AHEAD = spec.Streamer(
    level=2, trigger=2, degree=1, max_distance=8, streams=16, trained_by=("load", "store", "l1_prefetcher")
)
RAMP_THAT_ENDS_SOON = spec.Streamer(level=2, trigger=3, degree=4, ramp=(2, 3), max_distance=8, streams=16)
UP_DOWN = spec.UpDown(level=2)
ONE_LINE_AT_A_TIME = spec.Streamer(level=2, trigger=5, degree=1, max_distance=16, streams=8)
REGION_OF_TWO_VISITS = spec.Region(
    level=1, fills="l1", trigger=2, region_size_bytes=4096, active_regions=8, indexed_by="ip+offset"
)
SHORT_STRIDES = spec.Stride(
    level=2, trigger=3, degree=2, max_distance=4, max_stride_bytes=256, indexed_by="page", entries=16
)
FAR_STRIDE = spec.Stride(level=2, trigger=3, degree=2, max_distance=6, indexed_by="page", entries=16)
EARLY_STREAM = spec.Streamer(level=1, fills="l2", trigger=2, degree=2, max_distance=8, directions="up", streams=32)
EARLY_STRIDE = spec.Stride(level=2, trigger=2, degree=2, max_distance=2, indexed_by="page", entries=8)


def laboratory(machine: SimulatedMachine) -> Lab:
    context = swept(machine, fast=True)
    region = working_memory(context)
    return Lab(context, region, measure_references(context, region))


def outer_next(machine: SimulatedMachine) -> Found:
    """The next-line prefetcher of level 2, looked for behind the neighbours before it in the table."""
    lab = laboratory(machine)
    for family in FAMILIES:
        if family.identity in ("l1.next_line", "l2.pair", "l2.up_down", "l2.next_line"):
            lab.known.finds[family.identity] = family.find(lab)
    return lab.known.finds["l2.next_line"]


def surveyed(machine: SimulatedMachine) -> list[Finding]:
    """What surveys at several times agree on."""
    context = Context(machine=machine, seed=5, fast=True)
    region = working_memory(context)
    return survey.repeated_survey(context, region, lambda: measure_references(context, region))[1]


def surveyed_once(machine: SimulatedMachine) -> list[Finding]:
    """What one survey shows by itself, with nothing kept back because another one did not agree."""
    context = swept(machine, fast=True)
    region = working_memory(context)
    references = measure_references(context, region)
    lab = Lab(context, region, references)
    huge = Lab(context, machine.allocate(16 * survey.HUGE_BYTES, survey.HUGE_BYTES), references)
    return list(survey.survey(lab, huge, survey.find(lab, Busy(machine))))


DESCRIBED = re.compile(r"\.other\.(?!present)")
"""What is described of no family: `test_map_descriptions.py` holds it against the truth."""

Survey = Callable[[SimulatedMachine], list[Finding]]


def judged(*prefetchers: Any, look: Survey = surveyed_once, **changes: Any) -> dict[str, Judgement]:
    changes = {**SHAPE, **changes}
    with closing(quiet(prefetchers=prefetchers, **changes)) as machine:
        reported = look(machine)
    shape = {name: changes.pop(name) for name in ("l1", "l2", "l3") if name in changes}

    file = spec.Machine(name="quiet", levels=levels(**shape), prefetchers=prefetchers, **changes)
    true = [finding for finding in truth(file) if finding.parameter.startswith("prefetcher.")]
    true = [finding for finding in true if not DESCRIBED.search(finding.parameter)]
    reported = [finding for finding in reported if not DESCRIBED.search(finding.parameter)]
    known = frozenset(finding.parameter for finding in (*true, *reported))
    return {judgement.parameter: judgement for judgement in judge("quiet", reported, true, known, left_open(file))}


@cache
def judged_once(prefetchers: tuple[Any, ...]) -> dict[str, Judgement]:
    """For machines that several tests ask something of."""
    return judged(*prefetchers)


def unresolved(judgements: dict[str, Judgement]) -> set[str]:
    return {name for name, judgement in judgements.items() if judgement.verdict is Verdict.UNRESOLVED}


def wrong(judgements: dict[str, Judgement]) -> list[Judgement]:
    return [judgement for judgement in judgements.values() if judgement.verdict is Verdict.WRONG]


def test_nothing_is_reported_of_a_machine_without_prefetchers() -> None:
    judgements = judged(look=surveyed)
    assert len(judgements) == 10
    assert {judgement.verdict for judgement in judgements.values()} == {Verdict.RIGHT}


@pytest.mark.parametrize(
    ("prefetcher", "open_questions"),
    [
        (NEXT_LINE, set()),
        (L1_STREAM, set()),
        (L1_STRIDE, set()),
        (REGION, set()),
        (PAIR, set()),
        (L2_NEXT, set()),
        (L2_STRIDE, set()),
        (L2_STREAM, set()),
    ],
    ids=["next line", "l1 stream", "l1 stride", "region", "pair", "l2 next line", "l2 stride", "l2 stream"],
)
def test_one_prefetcher_is_reported_by_all_its_rules(prefetcher: Any, open_questions: set[str]) -> None:
    """By surveys at several times, of which the first leave the prefetcher something to remember."""
    judgements = judged(prefetcher, look=surveyed)
    assert wrong(judgements) == []
    assert {name for name in unresolved(judgements) if ".other." not in name} <= open_questions


@pytest.mark.parametrize(
    "prefetchers",
    [
        (ALWAYS_NEXT, L2_STREAM),
        (L1_STREAM, L2_STREAM),
        (L1_STRIDE, L2_STRIDE),
        (PAIR, L2_NEXT),
        (REGION, L2_STREAM),
        (L2_NEXT, L2_STREAM),
        (UP_DOWN, L2_STREAM),
    ],
    ids=lambda pair: "+".join(type(each).__name__ + str(each.level) for each in pair),
)
def test_of_two_that_hide_each_other_nothing_is_reported_wrong(prefetchers: tuple[Any, ...]) -> None:
    judgements = judged_once(prefetchers)
    assert wrong(judgements) == []
    present = [judgement for name, judgement in judgements.items() if re.search(r"(?<!other)\.present$", name)]
    assert sum(judgement.verdict is Verdict.UNRESOLVED for judgement in present) <= 1


@pytest.mark.parametrize(
    ("prefetchers", "right"),
    [
        ((L2_NEXT, UP_DOWN), ("l2.up_down.present", "l2.up_down.trained_by", "l2.next_line.trained_by")),
        ((NEXT_LINE, ONE_LINE_AHEAD), ("l2.stream.max_distance", "l2.stream.trigger")),
        ((RAMP_THAT_ENDS_SOON,), ("l2.stream.degree", "l2.stream.max_distance")),
        ((L1_STREAM, L2_STREAM), ("l2.stream.streams", "l2.stream.streams_per_page", "l2.stream.trigger_at_page_edge")),
        ((NEXT_LINE, ONE_LINE_AT_A_TIME), ("l2.stream.streams",)),
        ((REGION_OF_TWO_VISITS, FAR_STRIDE), ("l2.stride.present", "l2.stride.trained_by", "l2.stride.directions")),
        ((L2_NEXT, FAR_STRIDE), ("l2.stride.max_distance", "l2.stride.min_stride")),
        ((EARLY_STREAM, EARLY_STRIDE), ("l1.stream.directions", "l1.stream.trigger_at_page_edge", "l1.stream.trigger")),
        ((L2_STRIDE, L2_STREAM), ("l2.stride.degree", "l2.stride.max_stride", "l2.stride.crosses_4k")),
    ],
    ids=[
        "both neighbours",
        "hits wake next line",
        "ramp",
        "streams of both levels",
        "next line and one line at a time",
        "regions and strides",
        "strides beside next lines",
        "two accesses are a stride too",
        "strides beside streams",
    ],
)
def test_rules_are_reported_beside_what_used_to_hide_them(prefetchers: tuple[Any, ...], right: tuple[str, ...]) -> None:
    judgements = judged_once(prefetchers)
    assert wrong(judgements) == []
    assert {judgements[f"prefetcher.{name}"].verdict for name in right} == {Verdict.RIGHT}


@pytest.mark.parametrize("enough", [1, 0])
@pytest.mark.parametrize("asking", [NEXT_LINE, ALWAYS_NEXT])
def test_one_request_of_level_one_starts_a_stream_or_does_not(asking: spec.NextLine, enough: int) -> None:
    """Nor do requests that come with every access make other values wrong."""
    streamer = replace(L2_STREAM, trained_by=("load", "l1_prefetcher"), trigger_by_l1_prefetcher=enough)
    judgements = judged(asking, streamer)
    assert wrong(judgements) == []
    asked = {judgements[f"prefetcher.l2.stream.{name}_by_l1_prefetcher"].verdict for name in ("trigger", "trained")}
    assert asked == {Verdict.RIGHT if enough else Verdict.UNRESOLVED}
    assert judgements["prefetcher.l2.stream.trigger"].verdict is Verdict.RIGHT


@pytest.mark.parametrize("core", [spec.Core(), spec.Core(out_of_order=False, blocking_load=True)])
@pytest.mark.parametrize("beside", [(), (L2_NEXT,), (PAIR,)], ids=["alone", "next line", "pair"])
def test_next_lines_of_level_two_are_reported_behind_those_of_level_one(
    beside: tuple[Any, ...], core: spec.Core
) -> None:
    """Level 1's own requests are dropped while all its miss entries are taken, also where only prefetches can take
    them."""
    with closing(quiet(prefetchers=(ALWAYS_NEXT, *beside), core=core, **SHAPE)) as machine:
        found = outer_next(machine)
    assert (found.hidden, found.present) == (True, L2_NEXT in beside)


def test_next_lines_stay_open_where_level_one_waits_for_an_entry() -> None:
    with closing(quiet(prefetchers=(replace(ALWAYS_NEXT, when_full="stalls"), L2_NEXT), **SHAPE)) as machine:
        assert outer_next(machine).present is None


def test_two_runs_of_a_page_are_reported_where_level_two_leads_them_on() -> None:
    inner = spec.Streamer(level=1, fills="l2", trigger=5, degree=4, max_distance=16, streams=8, streams_per_page=2)
    outer = spec.Streamer(
        level=2,
        trigger=2,
        degree=4,
        ramp=(2, 3),
        max_distance=8,
        directions="up",
        streams=8,
        trained_by=("load", "l1_prefetcher"),
        trigger_by_l1_prefetcher=1,
    )
    with closing(quiet(prefetchers=(inner, outer), **SHAPE)) as machine:
        rules = Tables(laboratory(machine), Found(present=True, trigger=5), inner=True)
        assert rules.per_page("both") == 2
        assert rules.entries() == 8


def test_a_table_behind_which_level_two_leads_on_is_reported_as_a_bound() -> None:
    """Level 2's is the smaller one: what it forgot isn't led on, whatever level 1 remembers."""
    inner = spec.Streamer(level=1, fills="l2", trigger=5, degree=4, max_distance=16, streams=32, streams_per_page=2)
    listening = {"trained_by": ("load", "l1_prefetcher"), "trigger_by_l1_prefetcher": 1}
    outer = spec.Streamer(level=2, trigger=2, degree=4, max_distance=32, streams=8, **listening)
    judgements = judged(inner, outer)
    assert wrong(judgements) == []
    assert judgements["prefetcher.l1.stream.streams"].outcome == "at_least"


def test_one_line_ahead_may_be_a_next_line_prefetcher_s() -> None:
    """One request of level 1 brings the line after as well: by the stream or by level 2's next-line prefetcher."""
    streamer = replace(L2_STREAM, degree=1, trained_by=("load", "l1_prefetcher"))
    beside = replace(L2_NEXT, trained_by=("load", "l1_prefetcher"))
    assert wrong(judged(NEXT_LINE, beside, streamer)) == []


def test_a_line_that_one_access_brings_hides_no_stream() -> None:
    streamer = spec.Streamer(level=2, trigger=5, degree=1, max_distance=32, streams_per_page=2)
    judgements = judged(spec.NextLine(level=2, only_misses=True), streamer)
    assert judgements["prefetcher.l2.stream.streams_per_page"].verdict is not Verdict.WRONG


def test_runs_that_are_not_taken_up_alone_say_nothing_of_two_in_a_page() -> None:
    """A batch goes further than the distance, so hits on the first line ahead bring nothing more."""
    streamer = spec.Streamer(level=2, trigger=3, degree=16, max_distance=8, streams=16, streams_per_page=2)
    with closing(quiet(prefetchers=(streamer,), **SHAPE)) as machine:
        rules = Tables(laboratory(machine), Found(present=True, trigger=3), inner=False)
        assert rules.per_page("both") is None


def test_what_hears_hits_of_level_two_and_forgets_as_level_one_does_is_no_stream_of_level_one() -> None:
    path = spec.SignaturePath(level=2, patterns=1024, max_depth=12, trust_percent=80, trained_by=("load", "store"))
    judgements = judged(path)
    assert [each for each in wrong(judgements) if each.parameter.startswith("prefetcher.l1.stream")] == []
    own = judged(spec.Streamer(level=1, fills="l2", trigger=3, degree=2, max_distance=12, streams=16))
    assert own["prefetcher.l1.stream.present"].verdict is Verdict.RIGHT


def test_stores_train_where_they_have_translations_of_their_own() -> None:
    """Behind stores alone the page's translation for loads was missing, so lines of level 1 seemed further out."""
    apart = spec.TlbTable(entries=16)
    tlb = spec.Tlb(l1_4k=spec.TlbTable(entries=64, miss_penalty_cycles=20.0), l1_4k_store=apart, l1_2m_store=apart)
    stride = replace(L1_STRIDE, trained_by=("load", "store"))
    for one in (L1_STRIDE, stride):
        judgements = judged(one, tlb=tlb)
        assert judgements["prefetcher.l1.stride.trained_by"].verdict is Verdict.RIGHT


def test_threads_that_slow_each_other_down_hide_no_stream() -> None:
    """A load beside a sibling takes longer than any reference of its level, and still much less than from memory."""
    core = spec.Core(threads_per_core=2, smt_extra_cycles=10.0)
    streamer = replace(L1_STREAM, fills="l2", shared_by_smt=True)
    with closing(quiet(prefetchers=(streamer,), core=core, **SHAPE)) as machine:
        lab, reported = laboratory(machine), Report("l1.stream")
        rarely_later = {name: np.append(ticks, ticks.max() + 1) for name, ticks in lab.references.ticks.items()}
        lab.references = References(rarely_later)
        report_shared(lab, l1_question(lab, gap_lines(lab, 3), False), 2, reported)
    assert [finding.value for finding in reported] == [True]


@pytest.mark.parametrize(
    "stride", [replace(L1_STRIDE, directions="down"), replace(L1_STRIDE, max_stride_bytes=256)], ids=["down", "short"]
)
def test_what_indexes_strides_is_asked_with_runs_that_are_followed(stride: spec.Stride) -> None:
    with closing(quiet(prefetchers=(stride,), **SHAPE)) as machine:
        lab = laboratory(machine)
        rules = InstructionRules(lab, find_l1_stride(lab))
        rules.trigger = stride.trigger
        assert rules.indexed_by(rules.goes_beyond()) == "ip"
        assert rules.indexed_by(False) == "ip"  # as where physical addresses are compared


@pytest.mark.parametrize("trigger", [8, 12])
def test_a_stream_that_wants_more_accesses_than_are_asked_is_not_reported_absent(trigger: int) -> None:
    streamer = spec.Streamer(level=2, trigger=trigger, degree=2, max_distance=16, streams=16)
    judgements = judged(streamer)
    assert wrong(judgements) == []
    assert judgements["prefetcher.l2.stream.present"].verdict is Verdict.UNRESOLVED


@pytest.mark.parametrize("fills", ["l1", "l2"])
def test_a_stream_of_two_lines_is_not_reported_absent_beside_one_that_goes_far(fills: Literal["l1", "l2"]) -> None:
    """What level 2 leads far explains runs of neighbouring lines, but not what comes while it hears only hits."""
    near = spec.Streamer(level=1, fills=fills, trigger=3, degree=1, max_distance=2, streams=16)
    far = spec.Streamer(level=2, trigger=3, degree=2, max_distance=20, streams=16)
    with closing(quiet(prefetchers=(near, far), **SHAPE)) as machine:
        assert find_l1_stream(laboratory(machine)).present is None


@pytest.mark.parametrize("beside", [EARLY_STRIDE, UP_DOWN, L2_NEXT, PAIR], ids=["stride", "up/down", "next", "pair"])
def test_what_neighbours_and_strides_bring_next_to_a_run_is_no_stream(beside: Any) -> None:
    with closing(quiet(prefetchers=(ALWAYS_NEXT, beside), **SHAPE)) as machine:
        assert find_l1_stream(laboratory(machine)).present is False


def test_streams_are_found_where_level_two_holds_few_lines_per_offset() -> None:
    """What pushes lines out of level 1 must not miss level 2, whose streams would forget the run in question."""
    streamer = replace(L2_STREAM, degree=1, streams=8)
    shape = {"l1": {"ways": 10}, "l2": {"sets": 512, "ways": 4}, "l3": {"sets": 8192, "ways": 16}}
    judgements = judged(L2_NEXT, streamer, look=surveyed, **shape)
    assert wrong(judgements) == []
    right = ("present", "trigger", "degree", "max_distance", "directions")
    assert {judgements[f"prefetcher.l2.stream.{name}"].verdict for name in right} == {Verdict.RIGHT}


@pytest.mark.parametrize("l1", [{"sets": 64, "ways": 8}, {"sets": 128, "ways": 12}], ids=["8 ways", "128 sets"])
def test_streams_of_a_large_table_of_level_one_are_not_level_two_s(l1: dict[str, int]) -> None:
    """More pages than it has entries are traversed between accesses, also where a page's lines are half of level 1's
    sets, so that more lines are needed to push one out."""
    judgements = judged(replace(EARLY_STREAM, streams=64), l1=l1, l2={"sets": 2048})
    assert wrong(judgements) == []
    present = [judgements[f"prefetcher.{level}.stream.present"].verdict for level in ("l1", "l2")]
    assert present == [Verdict.RIGHT] * 2


@pytest.mark.parametrize(
    "prefetchers",
    [
        (spec.SpatialPattern(level=2, region_size_bytes=4096, vote_percent=20),),
        (spec.SpatialPattern(level=1, fills="l1", region_size_bytes=1024, vote_percent=20),),
        (replace(REGION, fills="l2", indexed_by="offset"), PAIR),
        (EARLY_STREAM, PAIR, L2_NEXT),
        (PAIR, replace(L2_NEXT, fills="l3")),
        (replace(L1_STREAM, crosses_4k_in_2m=True), L2_STREAM),
        (NEXT_LINE, replace(ONE_LINE_AHEAD, crosses_4k_in_2m=True)),
    ],
    ids=["votes", "votes of level 1", "offsets", "run of two", "beside a pair", "crosses", "crosses line by line"],
)
def test_what_has_other_explanations_is_not_reported(prefetchers: tuple[Any, ...]) -> None:
    assert wrong(judged(*prefetchers, l2={"sets": 2048}, l3={"sets": 8192, "ways": 16})) == []


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("shared", [True, False])
def test_threads_of_a_core_train_one_stream_or_their_own(shared: bool, threads: int) -> None:
    """Asked of two, three and four of them, as far as there are so many."""
    streamer = spec.Streamer(level=2, trigger=3, degree=4, max_distance=16, shared_by_smt=shared)
    with closing(quiet(prefetchers=(streamer,), core=spec.Core(threads_per_core=threads), **SHAPE)) as machine:
        lab, reported = laboratory(machine), Report("l2.stream")
        report_shared(lab, l2_questions(lab, gap_lines(lab, 3), False)[0], 2, reported)
    assert [finding.value for finding in reported] == [shared]
    asked = [str(number) for number in range(2, threads + 1)]
    assert lab.context.evidence["streams_of_threads"]["l2.stream"] == dict.fromkeys(asked, shared)


@pytest.mark.parametrize(
    ("prefetcher", "identity"),
    [
        (spec.StreamBuffer(level=1, fills="l1", depth=3), "l1.next_line"),
        (spec.ReferencePrediction(level=1, fills="l1", starts="steady"), "l1.stride"),
        (spec.ReferencePrediction(level=1, fills="l1", lookahead=4), "l1.stride"),
        (spec.FeedbackStream(level=2, start_level=2), "l2.stream"),
        (spec.InstructionClasses(level=1, fills="l1"), "l1.other"),
        (spec.NextPage(level=1, fills="l1"), "l1.other"),
    ],
)
def test_a_published_mechanism_is_the_family_whose_rules_it_follows_or_something_else(
    prefetcher: Any, identity: str
) -> None:
    assert identity_of(prefetcher) == identity
    judgements = judged(prefetcher)
    assert wrong(judgements) == []
    assert judgements[f"prefetcher.{identity}.present"].verdict is Verdict.RIGHT


@pytest.mark.parametrize("look", [surveyed_once, surveyed])
def test_what_learns_from_the_questions_is_no_family_nor_absent(look: Survey) -> None:
    """Its offset changes while a question and its control are asked."""
    assert wrong(judged(spec.BestOffset(level=2), look=look)) == []


@pytest.mark.parametrize("prefetcher", [L2_STREAM, spec.BestOffset(level=2)], ids=["stream", "best offset"])
def test_streams_are_asked_for_in_pages_of_few_lines(prefetcher: Any) -> None:
    """Runs of new distances were searched for without an end where a page has no room for them."""
    assert wrong(judged(prefetcher, line_size_bytes=128)) == []


@pytest.mark.parametrize("stride", [L1_STRIDE, L2_STRIDE], ids=["instruction", "page"])
def test_strides_are_found_in_pages_of_few_lines(stride: spec.Stride) -> None:
    """A page of 32 lines has no room for eight accesses seven lines apart."""
    judgements = judged(stride, line_size_bytes=128)
    assert wrong(judgements) == []
    right = ("present", "trigger", "degree", "directions", "streams")
    assert {judgements[f"prefetcher.l{stride.level}.stride.{name}"].verdict for name in right} == {Verdict.RIGHT}


def test_a_first_level_that_keeps_what_others_push_out_leaves_open_whose_a_stream_is() -> None:
    """One whose index is a hash keeps the line that others of the same offset are to push out, so traversals of other
    pages hit it, and its tables forget nothing."""
    streamer = replace(L2_STREAM, degree=3, max_distance=12, leads_by="access")
    judgements = judged(streamer, l1={"sets": 128, "ways": 4, "hashed_index": True}, l2={"sets": 2048})
    assert wrong(judgements) == []
    assert judgements["prefetcher.l2.stream.present"].verdict is Verdict.UNRESOLVED


def test_noise_makes_no_wrong_answer() -> None:
    noise = spec.Noise(interrupt_interval_cycles=3e6, stall_interval_cycles=2e5, stall_cycles=400)
    assert wrong(judged(L2_STREAM, PAIR, look=surveyed, noise=noise)) == []


def test_the_chart_of_a_sequential_run_is_the_papers_figure_7() -> None:
    streamer = spec.Streamer(
        level=2, trigger=3, trigger_at_page_edge=(1, 2, 2, 1), degree=4, ramp=(2, 3), max_distance=16
    )
    with closing(quiet(prefetchers=(streamer,), **SHAPE)) as machine:
        run = charts(laboratory(machine))["line after line"]
    fetched = {line: lines for line, lines in zip(run["touched"], run["fetched"], strict=True) if lines}
    steady = [4, 5, 7, *range(11, 44, 4)]
    assert fetched == {0: 2, 1: 3, 2: 4, 3: 4, **dict.fromkeys(steady, 4), 47: 2}
    # the paper counts to where the next batch starts, one line further
    assert [run["ahead"][line] + 1 for line in (0, 1, 2, 3, 4, 5, 6, 7, 8, 11)] == [3, 5, 8, 11, 14, 17, 16, 19, 18, 19]


@pytest.mark.parametrize(
    "prefetcher",
    [SHORT_STRIDES, spec.Streamer(level=2, trigger=3, degree=3, max_distance=2, streams=16)],
    ids=["short strides", "batches of three"],
)
def test_runs_three_lines_apart_leave_open_what_leads_them(prefetcher: Any) -> None:
    with closing(quiet(prefetchers=(prefetcher,), **SHAPE)) as machine:
        found = find_l2_stride(laboratory(machine))
    assert (found.present, found.reason) == (None, SHORT_LED)


@pytest.mark.parametrize("beside", [(UP_DOWN,), ()], ids=["up/down", "alone"])
def test_what_going_down_brings_is_left_open_beside_streams_that_two_accesses_start(beside: tuple[Any, ...]) -> None:
    two_accesses = spec.Streamer(level=1, fills="l1", trigger=2, degree=2, max_distance=12, streams=16)
    with closing(quiet(prefetchers=(two_accesses, *beside), **SHAPE)) as machine:
        found = survey.find(laboratory(machine), Busy(machine))["l2.up_down"]
    assert (found.present, found.seen) == (None, True)


def test_a_pattern_says_which_lines_are_where() -> None:
    with closing(quiet(prefetchers=(L2_STREAM,), **SHAPE)) as machine:
        lab = laboratory(machine)
        found = {finding.parameter: finding.value for finding in ask(lab, "4 5 6 7")}
        random_walk = {finding.parameter for finding in ask(lab, "31 7 50 12")}
    loaded = {f"pattern.line_{line}": "l1" for line in (4, 5, 6, 7)}
    assert found == {**loaded, "pattern.line_8": "l2", "pattern.line_9": "l2"}
    assert random_walk == {f"pattern.line_{line}" for line in (31, 7, 50, 12)}


def test_a_survey_that_took_much_samples_no_longer_what_stays_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def unclear(_lab: Lab, _visit: Visit, targets: list[int], repetitions: int) -> dict[int, bool | None]:
        asked.append(repetitions)
        return dict.fromkeys(targets)

    monkeypatch.setattr(Lab, "_present", unclear)
    with closing(quiet(**SHAPE)) as machine:
        lab = laboratory(machine)
        for line, operations in ((20, 0), (21, lab.params.operations + 1)):
            lab.operations = operations
            assert lab.brings(Visit((Access(line * lab.line_size),)), 5) is None
    assert asked == [12, 60, 240, 12, 60]
