"""How long a vector load takes until its value can be used, from what it takes longer than an 8-byte load."""

from __future__ import annotations

import math
from collections.abc import Sequence

from setebench.results import Finding, Outcome
from setebench.stats import decide
from setebench.stats.drift import over_time
from setebench.stats.estimate import Estimate, Interval

from .params import Params
from .rounds import Round

METHOD = "8-byte latency, plus what fenced vector loads take longer than fenced 8-byte loads"


def vector_surplus(
    rounds: Sequence[Round], level: str, size: int, round_trip: Estimate, params: Params
) -> tuple[float, float, float] | str:
    """Cycles that a vector load takes longer than an 8-byte load until its value is in its register, with the ends of
    its interval; or why that isn't known.

    A fence behind each load waits until the value has arrived. Behind L1 a level's own surplus is stated where it is
    precise, else the first level's, unless the two differ: what takes longer is the way from L1 to the register.

    A core may call a load done when the value has arrived, cycles before an instruction of the vector unit can use
    it. A vector chase has all of that in each step, and a transfer back to an integer register: a cycle at least, and
    no more than a round trip but for the cycle of its other half. So chase and round trip bound the surplus on both
    ends."""
    own, first = (
        over_time([each.longer[name, size] for each in rounds if (name, size) in each.longer]) for name in (level, "l1")
    )
    chase = over_time([each.chase_longer[size] for each in rounds if size in each.chase_longer])
    if not all(math.isfinite(each.half_width) for each in (first, chase, round_trip)):
        return "too few undisturbed rounds"
    least, most = chase.low - max(round_trip.high - 1.0, 1.0), chase.high - 1.0
    if first.high < least - 1.0 or first.low > most + 1.0:
        apart = f"but a chase {least:.1f} to {most:.1f}"
        return f"fenced loads take {first.value:.1f} cycles longer than 8-byte loads, {apart}"
    precise = own.half_width <= params.precise_cycles
    if level != "l1" and precise and own.low > first.high + 1.0:
        surplus = own
    elif level != "l1" and precise and own.high < first.low - 1.0:
        return f"fenced loads take {own.value:.1f} cycles longer than 8-byte loads, {first.value:.1f} in L1"
    else:
        surplus = first
    later = max(chase.value - 1.0 - first.value, 0.0)
    return surplus.value + later / 2, surplus.low, surplus.high + later


def vector_finding(
    parameter: str, agreed: Finding, surplus: tuple[float, float, float] | str, params: Params
) -> Finding:
    """Vector load to use in a vector register: the level's latency, and what a vector load takes longer. The way from
    the load unit into a vector register can't be timed apart from the way back: the interval holds both, and where that
    is wide its lower end is a bound, as its middle is no more likely than its ends."""
    if agreed.outcome is not Outcome.MEASURED or not isinstance(agreed.value, float):
        why = "the 8-byte latency that it is compared with is no value"
        return decide.unresolved(parameter, "cycles", why, METHOD)
    if isinstance(surplus, str):
        return decide.unresolved(parameter, "cycles", f"{surplus}; run again on a quieter machine", METHOD)
    value, low, high = agreed.value + surplus[0], (agreed.low or 0.0) + surplus[1], (agreed.high or 0.0) + surplus[2]
    room = max(params.precise * value, params.precise_cycles)
    return decide.as_precise(decide.measured(parameter, Interval(value, low, high), "cycles", METHOD), room)
