"""From rounds of single loads and chains to findings, on made-up rounds whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from setebench.infer.latency import LEAST_SHARE, RUN_TO_RUN, _both_ways, findings
from setebench.infer.latency_samples import Samples
from setebench.infer.vectors import VECTOR_CYCLES
from setebench.results import Finding, Outcome

TRUTH = {"l1": 4.0, "l2": 14.0, "l3": 45.0, "memory": 300.0}
TRANSFERS = [7.0] * 12
"""Round trips between register files, of which the way back takes `BACK`."""
BACK = 2.0


def level(
    cycles: float,
    *,
    single: float | None = None,
    rounds: int = 12,
    noise: float = 0.003,
    share: float = 1.0,
    excess: float = 0.0,
    single_excess_cycles2: float = 0.0,
    vector: float | None = None,
    seed: int = 1,
) -> Samples:
    """Rounds of a level that takes `cycles`; single loads take `single`; `noise` is the relative spread of rounds;
    loads of 16 bytes take `vector` longer."""
    rng = np.random.default_rng((seed, int(cycles)))

    def around(value: float) -> list[float]:
        return list((value * (1 + noise * rng.standard_normal(rounds))).tolist())

    alone = cycles if single is None else single
    longer = {} if vector is None else {16: [vector + 0.1 * x for x in rng.standard_normal(rounds).tolist()]}
    return Samples(
        single=around(alone),
        all_singles=around(alone),
        single_excess_cycles2=[single_excess_cycles2] * rounds,
        share=[share] * rounds,
        all_chains=around(cycles),
        excess=[excess] * rounds,
        chain=around(cycles),
        longer=longer,
        chase_longer={} if vector is None else {16: [vector + BACK] * rounds},
    )


def told(**changed: Samples) -> dict[str, Finding]:
    """Findings by parameter, of levels as in `TRUTH` but for those changed."""
    samples = {name: changed.get(name, level(cycles)) for name, cycles in TRUTH.items()}
    return {finding.parameter: finding for finding in findings(samples, TRANSFERS)}


def holds(finding: Finding, truth: float) -> bool:
    assert finding.low is not None and finding.high is not None
    return finding.low <= truth <= finding.high


# -- agreement -----------------------------------------------------------------------------------------------------


def test_ways_that_agree_are_told_with_an_interval_that_holds_the_truth() -> None:
    found = told()
    assert list(found)[:3] == ["latency.l1.sete", "latency.l1.chase", "latency.l1"]
    for name, cycles in TRUTH.items():
        finding = found[f"latency.{name}"]
        assert finding.outcome is Outcome.MEASURED
        assert finding.value == pytest.approx(cycles, rel=0.01)
        assert holds(finding, cycles)


def test_an_interval_is_never_narrower_than_runs_differ() -> None:
    finding = told(l2=level(14.0, noise=0.0))["latency.l2"]
    assert finding.low is not None and finding.high is not None
    assert finding.high - finding.low >= 2 * RUN_TO_RUN * 14.0 * 0.999


def test_an_interval_holds_the_values_of_both_ways() -> None:
    found = told(l2=level(14.0, single=14.6))
    assert found["latency.l2"].outcome is Outcome.MEASURED
    assert found["latency.l2"].value == found["latency.l2.chase"].value
    for way in ("sete", "chase"):
        value = found[f"latency.l2.{way}"].value
        assert isinstance(value, float) and holds(found["latency.l2"], value)


def test_ways_a_little_apart_widen_the_interval_over_both() -> None:
    finding = told(l3=level(45.0, single=50.0))["latency.l3"]
    assert finding.outcome is Outcome.MEASURED and "widened" in finding.method
    assert holds(finding, 45.0) and holds(finding, 50.0)


@pytest.mark.parametrize(("name", "single"), [("l1", 8.0), ("l2", 22.0), ("l3", 70.0), ("memory", 200.0)])
def test_ways_far_apart_leave_the_level_unresolved_and_name_both_values(name: str, single: float) -> None:
    found = told(**{name: level(TRUTH[name], single=single)})
    finding = found[f"latency.{name}"]
    assert finding.outcome is Outcome.UNRESOLVED and finding.reason is not None
    assert f"{TRUTH[name]:.0f}." in finding.reason or f"{TRUTH[name] - 1:.0f}." in finding.reason
    assert found[f"latency.{name}.sete"].outcome is Outcome.MEASURED
    assert found[f"latency.{name}.chase"].outcome is Outcome.MEASURED


def test_lines_that_the_clock_parts_are_no_mixture() -> None:
    """Where single loads show the level alone, a chain's variance says nothing against it."""
    own = level(46.0, single=40.0, share=0.85, excess=0.09 * 200.0**2)
    own.upwards = True
    own.all_singles = list(own.all_chains)
    assert told(l3=own)["latency.l3"].value == pytest.approx(40.0, rel=0.01)


def test_where_all_loads_agree_the_largest_group_of_single_loads_is_told() -> None:
    """Lines pushed out of the level fall on both ways alike; only single loads can be parted from them."""
    own = level(50.0, single=40.0, share=0.85)
    own.all_singles = list(own.all_chains)
    finding = told(l3=own)["latency.l3"]
    assert finding.outcome is Outcome.MEASURED
    assert finding.value == pytest.approx(40.0, rel=0.01) and "85%" in finding.method


def test_lines_of_a_mixture_that_are_fastest_in_both_halves_are_told() -> None:
    """Some lines were always pushed out, by 40 cycles; the fastest ones leave nothing of them unexplained."""
    own = level(18.0, single=14.0, excess=0.1 * 0.9 * 40.0**2)
    own.upwards = True
    own.all_singles = list(own.all_chains)
    finding = told(l2=own)["latency.l2"]
    assert finding.outcome is Outcome.MEASURED
    assert finding.value == pytest.approx(14.0, rel=0.01) and holds(finding, 14.0)


def test_where_chains_went_astray_more_precise_single_loads_are_told() -> None:
    """A chain has many lines to go astray, a single load has one."""
    own = level(50.0, single=46.0)
    own.chain = [50.0, 46.0, 55.0, 47.0, 53.0, 49.0, 58.0, 46.0, 50.0, 52.0, 47.0, 55.0]
    own.all_singles = list(own.single)
    assert told(l3=own)["latency.l3"].value == pytest.approx(46.0, rel=0.01)


@pytest.mark.parametrize("share", [1.0, 0.85])
@pytest.mark.parametrize("upwards", [False, True])
def test_lines_that_the_level_before_still_held_leave_room_upwards(upwards: bool, share: float) -> None:
    """A twentieth of lines answered from L2, 31 cycles earlier; what makes a spread lopsided upwards isn't that. Nor do
    lines that the clock parts, from memory, say that all others are from one level."""
    own = level(45.0 - 0.05 * 31.0, excess=0.05 * 0.95 * 31.0**2, share=share)
    own.upwards = upwards
    assert holds(told(l3=own)["latency.l3"], 45.0 - 0.05 * 31.0)
    assert holds(told(l3=own)["latency.l3"], 44.8) is not upwards


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize(("share", "upwards"), [(0.8, False), (0.8, True), (1.0, False)])
def test_lines_of_the_level_before_in_one_group_with_this_ones_leave_room_upwards(
    spread: bool, share: float, upwards: bool
) -> None:
    """A tenth of lines answered from L2, and a jitter as long as the way to L3 hides them; lost lines lie apart."""
    mixed = 0.1 * 0.9 * 31.0**2 if spread else 0.0
    own = level(45.0 - 3.1, share=share, excess=mixed, single_excess_cycles2=mixed)
    own.upwards = upwards
    assert holds(told(l3=own)["latency.l3"], 44.9) is spread


def test_single_loads_that_answer_too_differently_tell_nothing() -> None:
    finding = told(l3=level(45.0, share=LEAST_SHARE - 0.1))["latency.l3"]
    assert finding.outcome is Outcome.UNRESOLVED and f"{LEAST_SHARE - 0.1:.0%}" in str(finding.reason)


# -- doubts about levels -------------------------------------------------------------------------------------------


def test_a_mixture_leaves_its_level_and_the_outer_caches_unresolved() -> None:
    """A tenth of L2's lines answered from 40 cycles further out: variance grows by 0.1 * 0.9 * 40 ** 2 a step."""
    found = told(l2=level(18.0, excess=0.09 * 40.0**2))
    assert found["latency.l1"].outcome is Outcome.MEASURED
    assert found["latency.l2"].outcome is Outcome.UNRESOLVED
    assert found["latency.l3"].outcome is Outcome.UNRESOLVED and "l2 is a mixture" in str(found["latency.l3"].reason)
    assert found["latency.memory"].outcome is Outcome.MEASURED


def test_what_may_be_mixed_in_lowers_the_interval() -> None:
    """An excess of 5 and a next level 31 cycles away: the mean is too high by 0.16 cycles at most."""
    pure, mixed = told(), told(l2=level(14.0, excess=5.0))
    low, lower = pure["latency.l2"].low, mixed["latency.l2"].low
    assert low is not None and lower is not None
    assert low - lower == pytest.approx(5 / 31, abs=0.02)


def test_levels_behind_a_hidden_one_have_no_number() -> None:
    samples = {name: level(cycles) for name, cycles in TRUTH.items()}
    found = {finding.parameter: finding for finding in findings(samples, TRANSFERS, 25.0)}
    assert found["latency.l2"].outcome is found["latency.memory"].outcome is Outcome.MEASURED
    assert found["latency.l3"].outcome is Outcome.UNRESOLVED and "25.0" in str(found["latency.l3"].reason)


def test_memory_varies_by_nature() -> None:
    assert told(memory=level(300.0, excess=300.0**2))["latency.memory"].outcome is Outcome.MEASURED


def test_a_little_excess_is_no_mixture() -> None:
    found = told(l2=level(14.0, excess=10.0))
    assert found["latency.l2"].outcome is found["latency.l3"].outcome is Outcome.MEASURED


def test_a_level_hardly_slower_than_the_one_before_is_unresolved() -> None:
    found = told(l3=level(16.0))
    assert found["latency.l2"].outcome is Outcome.MEASURED
    assert found["latency.l3"].outcome is Outcome.UNRESOLVED
    assert "hardly longer than the level before" in str(found["latency.l3"].reason)


def test_a_cache_as_slow_as_memory_is_unresolved() -> None:
    found = told(l3=level(280.0))
    assert found["latency.l3"].outcome is Outcome.UNRESOLVED
    assert "nearly as long as memory" in str(found["latency.l3"].reason)
    assert found["latency.memory"].outcome is Outcome.MEASURED


# -- noise ---------------------------------------------------------------------------------------------------------


def test_rounds_that_differ_wildly_tell_nothing() -> None:
    found = told(l2=level(14.0, noise=1.5, rounds=6))
    assert found["latency.l2"].outcome is Outcome.UNRESOLVED
    assert found["latency.l2.sete"].outcome is Outcome.UNRESOLVED
    assert "too noisy" in str(found["latency.l2.sete"].reason)


def test_one_round_is_no_answer() -> None:
    found = told(l2=level(14.0, rounds=1))
    assert found["latency.l2"].outcome is found["latency.l2.chase"].outcome is Outcome.UNRESOLVED


@pytest.mark.parametrize("rounds", [2, 3, 4])
def test_few_calm_rounds_still_hold_the_truth(rounds: int) -> None:
    finding = told(l2=level(14.0, rounds=rounds, noise=0.002))["latency.l2"]
    assert finding.outcome is Outcome.MEASURED and holds(finding, 14.0)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    covering = 0
    for seed in range(300):
        finding = told(l2=level(14.0, noise=0.02, seed=seed))["latency.l2"]
        covering += finding.outcome is Outcome.MEASURED and holds(finding, 14.0)
    assert covering >= 0.93 * 300


@pytest.mark.parametrize(("upwards", "told_cycles"), [(True, 14.3), (False, 15.0)])
def test_of_two_ways_that_lines_from_further_out_raise_the_lower_is_told(upwards: bool, told_cycles: float) -> None:
    own = replace(level(14.3, single=15.0, excess=25.0), upwards=upwards)
    finding = told(l2=own)["latency.l2"]
    assert finding.value == pytest.approx(told_cycles, abs=0.1)
    assert holds(finding, 14.3)
    assert holds(finding, 15.0)


# -- vector loads --------------------------------------------------------------------------------------------------


def with_vectors(**changed: Samples) -> dict[str, Finding]:
    """Findings where 16-byte loads take 2 cycles longer in L1."""
    return told(**{"l1": level(4.0, vector=2.0), **changed})


@pytest.mark.parametrize("name", ["l1", "l2", "memory"])
def test_vector_loads_are_told_by_what_fenced_ones_take_longer(name: str) -> None:
    """However the round trip between the registers divides."""
    truth = TRUTH[name] + 2.0
    finding = with_vectors(**{name: level(TRUTH[name], vector=2.0)})[f"latency.{name}.vector16"]
    assert finding.outcome is Outcome.MEASURED
    assert finding.value == pytest.approx(truth, abs=VECTOR_CYCLES) and holds(finding, truth)


def test_a_core_may_call_a_load_done_before_a_vector_instruction_can_use_it() -> None:
    """Fenced loads of both sizes take the same, a chase 5 cycles longer: 0 to 4 of them are the way into the register,
    so nothing is told in L1, and that much of room in memory."""
    late = {name: level(TRUTH[name], vector=0.0) for name in ("l1", "memory")}
    for own in late.values():
        own.chase_longer[16] = [5.0] * len(own.chain)
    found = told(**late)
    assert found["latency.l1.vector16"].outcome is Outcome.UNRESOLVED
    assert "can't be timed apart" in str(found["latency.l1.vector16"].reason)
    far = found["latency.memory.vector16"]
    assert far.outcome is Outcome.MEASURED and holds(far, TRUTH["memory"]) and holds(far, TRUTH["memory"] + 4.0)


@pytest.mark.parametrize("fenced", [-3.5, 7.5])
def test_fenced_loads_that_a_vector_chase_contradicts_are_not_told(fenced: float) -> None:
    """A step of the chase takes 4 cycles longer, 1 to 6 of them for the way back to an integer register."""
    own = level(4.0, vector=2.0)
    own.longer[16] = [value + fenced - 2.0 for value in own.longer[16]]
    found = told(l1=own)
    assert found["latency.l1"].outcome is Outcome.MEASURED
    assert found["latency.l1.vector16"].outcome is Outcome.UNRESOLVED
    assert "vector chase" in str(found["latency.l1.vector16"].reason)


def test_a_level_whose_vector_loads_are_slower_tells_so() -> None:
    finding = with_vectors(l2=level(14.0, vector=5.0))["latency.l2.vector16"]
    assert finding.value == pytest.approx(19.0, abs=VECTOR_CYCLES) and holds(finding, 19.0)


def test_no_levels_vector_loads_gain_on_those_of_the_first_level() -> None:
    """The way from L1 to the register is part of every load, so a smaller difference was disturbed, however precise."""
    for name, longer in (("l3", -2.5), ("l3", 0.0), ("memory", -8.0)):
        found = with_vectors(**{name: level(TRUTH[name], vector=longer)})[f"latency.{name}.vector16"]
        assert found.outcome is Outcome.UNRESOLVED
        assert "in L1" in str(found.reason)


def noisy_vectors(cycles: float, longer: float) -> Samples:
    own = level(cycles, vector=longer)
    own.longer[16] = (longer + np.array([-6.0, 6.0] * 6)).tolist()
    return own


def test_where_a_levels_own_vector_loads_are_noisy_those_of_the_first_level_are_told() -> None:
    finding = with_vectors(l3=noisy_vectors(45.0, 3.0))["latency.l3.vector16"]
    assert finding.outcome is Outcome.MEASURED and holds(finding, 47.0)


def test_noisy_vector_loads_that_speak_against_the_first_levels_are_not_told() -> None:
    found = with_vectors(l3=noisy_vectors(45.0, 20.0))["latency.l3.vector16"]
    assert found.outcome is Outcome.UNRESOLVED and "in L1" in str(found.reason)


def test_vector_loads_need_the_8_byte_latency() -> None:
    found = with_vectors(l2=level(14.0, single=30.0, vector=2.0))
    assert found["latency.l2.vector16"].outcome is Outcome.UNRESOLVED
    assert "8-byte latency" in str(found["latency.l2.vector16"].reason)


def test_vector_loads_need_rounds_of_their_own() -> None:
    own = level(14.0, vector=2.0)
    own.longer[16] = own.longer[16][:1]
    assert with_vectors(l2=own)["latency.l2.vector16"].outcome is Outcome.UNRESOLVED


# -- rounds --------------------------------------------------------------------------------------------------------


def test_samples_of_some_rounds() -> None:
    own = level(14.0, rounds=8, vector=2.0)
    own.longer[16] = own.longer[16][:4]
    some = own.of(np.array([1, 3, 6]))
    assert some.single == [own.single[n] for n in (1, 3, 6)]
    assert some.chain == [own.chain[n] for n in (1, 3, 6)]
    assert some.longer[16] == [own.longer[16][n] for n in (1, 3)]
    assert len(some.share) == len(some.excess) == len(some.all_chains) == len(some.all_singles) == 3


def test_a_level_that_answers_faster_than_when_it_was_looked_for_is_not_told() -> None:
    """Lines that the level before holds by now would pass for its own."""
    samples = {"l1": level(4.0), "l2": level(14.0), "l3": level(30.0), "memory": level(500.0)}
    for searched, outcome in ((31.0, Outcome.MEASURED), (50.0, Outcome.UNRESOLVED)):
        found = {f.parameter: f for f in findings(samples, [4.0] * 12, searched={"l3": searched})}
        assert found["latency.l3"].outcome is outcome


def test_a_chase_too_noisy_to_tell_supports_nothing() -> None:
    own = level(27.0)
    own.chain = [20.0 if n % 2 else 90.0 for n in range(len(own.chain))]
    samples = {"l1": level(4.0), "l2": level(14.0), "l3": own, "memory": level(500.0)}
    found = {f.parameter: f for f in findings(samples, [4.0] * 12)}
    assert found["latency.l3"].outcome is Outcome.UNRESOLVED


def test_a_level_behind_one_of_several_walks_is_known_no_better_than_they_agree() -> None:
    samples = {"l1": level(4.0), "l2": level(14.0), "l3": level(50.0), "memory": level(500.0)}
    widths = []
    for searched in ({}, {"l3": 50.0}):
        found = {f.parameter: f for f in findings(samples, [4.0] * 12, searched=searched)}["latency.l3"]
        assert found.low is not None and found.high is not None
        widths.append(found.high - found.low)
    assert widths[1] - widths[0] == pytest.approx(3.0, rel=0.05)  # 4 % up and 2 % down


def test_what_other_cores_use_as_well_has_room_for_what_they_do_between_runs() -> None:
    """The same rounds say more of other runs where a level is the core's own."""
    own = level(45.0, noise=0.01)
    widths = {}
    for name in TRUTH:
        chase = next(each for each in _both_ways(name, own) if each.parameter.endswith(".chase"))
        assert chase.low is not None and chase.high is not None
        widths[name] = chase.high - chase.low
    assert widths["l1"] == widths["l2"] < 0.9 * widths["l3"]
    assert widths["l3"] == widths["memory"]
