"""What the latency scenario may spend, and from which precision on a latency is a value and not a bound."""

from __future__ import annotations

import msgspec


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of a round: `singles` and `chains` are repetitions of placed lines (fewer behind long traversals),
    `calibration` and `overhead` chained additions and empty intervals, `transfers` round trips between register files,
    `fenced` groups of fenced vector loads. A vector load's surplus hardly drifts: `vector_rounds` have it, and
    `traversed_vector_rounds` for levels between, where each costs traversals.

    `rounds` at least and at most: many short ones over seconds see what drifts slowly. None begins beyond `steps` of
    traversals, nor once every level's crude mean is known to `settled` of itself (half an interval) or
    `settled_cycles`.

    A round counts where a cycle took no more ticks than `pace` times the first quartile of all rounds: else something
    else ran on the core. At least `counted` rounds count.

    `chase` are steps of two chases in L1, long enough that brackets are nothing, each run `chases` times.

    A level is not identified where it serves less than `own` of its lines. What a vector load takes longer in a level
    counts as that level's own where it is known to `precise_cycles`. A latency that is known to `precise` of itself, or
    to `precise_cycles`, is a value, else the lower end of its interval is a bound: that is how closely a score holds
    latencies against the truth."""

    singles: int = 16
    chains: int = 16
    calibration: int = 1000
    overhead: int = 300
    transfers: int = 100
    fenced: int = 64
    vector_rounds: int = 4
    traversed_vector_rounds: int = 2
    rounds: tuple[int, int] = (6, 128)
    steps: int = 2_500_000
    settled: float = 0.02
    settled_cycles: float = 0.15
    pace: float = 1.02
    counted: int = 4
    chase: tuple[int, int] = (512, 2560)
    chases: int = 12
    own: float = 0.05
    precise: float = 0.05
    precise_cycles: float = 1.0

    def quicker(self) -> Params:
        """With fewer samples."""
        return msgspec.structs.replace(
            self, singles=10, calibration=400, overhead=120, rounds=(6, 32), settled=2 * self.settled
        )
