"""How long a vector load takes until its value can be used, from what it takes longer than an 8-byte load."""

from __future__ import annotations

from setebench.infer.cycles import AGREE_CYCLES, AGREE_RELATIVE, measured, unresolved
from setebench.infer.latency_samples import Samples
from setebench.infer.ticks import Estimate, agree, over_replicates
from setebench.results import Finding, Outcome

VECTOR_CYCLES = 0.99
"""A vector latency that may be further off is not told."""

METHOD = "8-byte latency, plus what fenced vector loads take longer than fenced 8-byte loads"


def vector_longer(size: int, own: Samples, first: Samples, round_trip: Estimate) -> Estimate | str:
    """Cycles that a vector load takes longer than an 8-byte load until its value is in its register; or why not.

    A fence behind each load waits for that, or nearly (`_with_the_way_on`). Behind L1 a level's own difference is
    told where it is precise, else the first level's, if the level's own doesn't speak against it: what takes longer
    is the way from L1 to the register, so no level's difference is smaller than the first's."""
    if min(len(own.longer[size]), len(first.longer[size]), len(first.chase_longer[size])) < 2:
        return "too few undisturbed rounds; run again at a quieter time"
    in_first, chase = over_replicates(first.longer[size]), over_replicates(first.chase_longer[size])
    why = _chase_against(in_first, chase, round_trip)
    if why:
        return why
    here, level = over_replicates(own.longer[size]), over_replicates(own.chain).value
    faster = own is not first and here.value < in_first.value
    room = AGREE_CYCLES if faster else max(AGREE_CYCLES, AGREE_RELATIVE * level)
    precise = own is first or (here.high - here.low) / 2 <= VECTOR_CYCLES
    if (faster or not precise) and not agree(here, in_first, relative=0.0, absolute=room):
        return f"fenced loads take {here.value:.1f} cycles longer than 8-byte loads, {in_first.value:.1f} in L1"
    return _with_the_way_on(here if precise and not faster else in_first, in_first, chase)


def _with_the_way_on(longer: Estimate, in_first: Estimate, chase: Estimate) -> Estimate:
    """`longer` with room for what no fence waits for: a core may call a load done when the value has arrived, cycles
    before an instruction of the vector unit can use it. What a vector chase has, less one cycle for the transfer back,
    bounds that."""
    on = max(chase.value - 1.0 - in_first.value, 0.0)
    return Estimate(longer.value + on / 2, longer.low, longer.high + on)


def _chase_against(longer: Estimate, chase: Estimate, round_trip: Estimate) -> str:
    """What a vector chase has against fenced loads: each of its steps also takes a transfer back to an integer
    register, which costs a cycle at least, and so does the other half of a round trip, all of which can be timed."""
    low, high = chase.low - max(round_trip.high - 1.0, 1.0), chase.high - 1.0
    if longer.high < low - AGREE_CYCLES or longer.low > high + AGREE_CYCLES:
        return (
            f"fenced loads take {longer.value:.1f} cycles longer than 8-byte loads, but a vector chase "
            f"between {low:.1f} and {high:.1f}"
        )
    return ""


def vector_finding(parameter: str, agreed: Finding, longer: Estimate | str) -> Finding:
    """Vector load to use in a vector register: the level's latency, and what a vector load takes longer."""
    if agreed.outcome is not Outcome.MEASURED or agreed.low is None or agreed.high is None:
        return unresolved(parameter, "the 8-byte latency that it is compared with is unresolved", METHOD)
    if isinstance(longer, str):
        return unresolved(parameter, f"{longer}; run again at a quieter time", METHOD)
    base = agreed.value if isinstance(agreed.value, float) else (agreed.low + agreed.high) / 2
    value = base + longer.value
    low, high = agreed.low + longer.low, agreed.high + longer.high
    if (longer.high - longer.low) / 2 > max(VECTOR_CYCLES, AGREE_RELATIVE * value):
        why = "what the way from the load unit into a vector register takes can't be timed apart from the way back"
        return unresolved(parameter, f"between {low:.1f} and {high:.1f} cycles: {why}", METHOD)
    return measured(parameter, Estimate(value, low, high), METHOD)
