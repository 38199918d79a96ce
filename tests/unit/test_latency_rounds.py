"""Which rounds of `setebench latency` count for what."""

from __future__ import annotations

from setebench.measure.calibrate import Ruler
from setebench.measure.rounds import Rounds

ROUNDS = 12


def test_vector_loads_count_in_rounds_whose_lines_were_lost() -> None:
    """They are timed in the first few rounds alone: with these left out, nothing could be told of them."""
    rounds = Rounds(("l1", "l3", "memory"), 1.0)
    rounds.rulers = [Ruler(40.0, 1.4)] * ROUNDS
    for name, cycles in (("l1", 4.0), ("l3", 50.0), ("memory", 400.0)):
        own = rounds.samples[name]
        own.single, own.all_singles, own.all_chains, own.chain = ([cycles] * ROUNDS for _ in range(4))
        own.share, own.excess = [1.0] * ROUNDS, [0.0] * ROUNDS
        own.longer = {16: [1.0, 1.1, 0.9]}
    rounds.samples["l3"].share[:3] = [0.4] * 3
    chosen = rounds.calm_samples()["l3"]
    assert len(chosen.single) == ROUNDS - 3
    assert chosen.longer == {16: [1.0, 1.1, 0.9]}
