"""A machine file's prefetchers in the arrays that the kernel runs on."""

from __future__ import annotations

from typing import Any

from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import Space, fill
from setebench.sim.prefetchers import BY_KEY, KINDS, NUMBERS, own_words, simulated

Words = Any
"""Configuration words: an array, or a list where prefetchers run without a machine."""

FILLS = {"none": 0, "l1": 1, "l2": 2, "l3": 3}
TRAINED_BY = {
    "load": at.BY_LOAD,
    "store": at.BY_STORE,
    "prefetch": at.BY_PREFETCH,
    "l1_prefetcher": at.BY_L1_PREFETCHER,
}


def lay_out_prefetchers(c: Words, machine: spec.Machine, space: Space) -> None:
    """Configuration words of every prefetcher, and room for its state: of each core, or of all together."""
    c[at.C_PREFETCHERS] = len(machine.prefetchers)
    for index, prefetcher in enumerate(map(simulated, machine.prefetchers)):
        p = at.C_PREFETCHER + index * at.P_WORDS
        number = NUMBERS[type(prefetcher)]
        own, words = own_words(prefetcher), KINDS[number].words(prefetcher)
        threads = 1 if prefetcher.shared_by_smt or isinstance(prefetcher, BY_KEY) else machine.core.threads_per_core
        fill(c, "P_", prefetcher, p)
        c[p + at.P_KIND] = number
        c[p + at.P_FILLS] = FILLS[prefetcher.fills]
        c[p + at.P_TRAINED] = sum(1 << TRAINED_BY[cause] for cause in set(prefetcher.trained_by))
        c[p + at.P_OWNED] = not prefetcher.shared_by_smt
        c[p + at.P_DROPS] = prefetcher.when_full == "drops"
        c[p + at.P_THREAD_WORDS] = words if threads > 1 else 0
        c[p + at.P_STATE_WORDS] = words * threads
        c[p + at.P_OFF] = 0
        c[p + at.P_STATE] = space.take(words * threads * machine.core.cores)
        c[p + at.P_OWN : p + at.P_OWN + len(own)] = own
        c[at.C_L1_PREFETCHERS if prefetcher.level == 1 else at.C_L2_PREFETCHERS] += 1
