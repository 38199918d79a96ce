"""Where a sampled access was served, in plain words: the kernel's data-source word and the weights beside it.

Bits: `union perf_mem_data_src` and `union perf_sample_weight` of linux/perf_event.h. What a CPU's PEBS or IBS says of
an access is translated to this word by the kernel.
"""

from __future__ import annotations

import msgspec

OPERATIONS = {2: "load", 4: "store", 8: "prefetch", 16: "execute"}

_LEVEL_NUMBERS = {
    1: "l1",
    2: "l2",
    3: "l3",
    4: "l4",
    5: "l2_miss_buffer",
    6: "memory_cache",
    7: "l0",
    8: "uncached",
    9: "cxl",
    10: "io",
    11: "any_cache",
    12: "lfb",
    13: "memory",
    14: "persistent_memory",
}
_LEVEL_NUMBER_NONE = 15
_LEVEL_BITS = {
    3: "l1",
    4: "lfb",
    5: "l2",
    6: "l3",
    7: "memory",
    8: "remote_memory",
    9: "remote_memory",
    10: "remote_cache",
    11: "remote_cache",
    12: "io",
    13: "uncached",
}
"""Bits of the older field of levels; bit 1 says that the level was hit, bit 2 that it was missed."""
_CACHES = ("l0", "l1", "lfb", "l2", "l2_miss_buffer", "l3", "l4", "any_cache")
_SNOOPS = {4: "hitm", 3: "miss", 2: "hit", 1: "none"}
_SNOOPS_MORE = {0: "forward", 1: "peer"}
_TLB_LEVELS = {3: "l1", 4: "l2", 5: "walk", 6: "fault"}


class DataSource(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one access; "" and None where the hardware did not say.

    `level`: l1, lfb (a line on its way already), l2, l3, memory, remote_cache, remote_memory ...; `hit` is False where
    the level is only known to have been missed. `snoop`: none, hit, miss, hitm (another cache held the line modified),
    forward, peer. `tlb`: hit or miss, `tlb_levels` of which. `blocked`: data or address, why the load had to wait."""

    operation: str = ""
    level: str = ""
    hit: bool | None = None
    snoop: str = ""
    tlb: str = ""
    tlb_levels: tuple[str, ...] = ()
    locked: bool | None = None
    blocked: str = ""


def _field(word: int, low: int, bits: int) -> int:
    return word >> low & (1 << bits) - 1


def _first(word: int, names: dict[int, str]) -> str:
    return next((name for bit, name in names.items() if word >> bit & 1), "")


def decode_data_source(word: int) -> DataSource:
    """The words of a data-source word. Unknown values of a field are as if the hardware did not say."""
    level, hit = _level(word)
    tlb = _field(word, 26, 7)
    locked = _field(word, 24, 2)
    return DataSource(
        operation=OPERATIONS.get(_field(word, 0, 5), ""),
        level=level,
        hit=hit,
        snoop=_first(_field(word, 38, 2), _SNOOPS_MORE) or _first(_field(word, 19, 5), _SNOOPS),
        tlb={2: "hit", 4: "miss"}.get(tlb & 6, ""),
        tlb_levels=tuple(name for bit, name in _TLB_LEVELS.items() if tlb >> bit & 1),
        locked=None if not locked or locked & 1 else True,
        blocked=_first(_field(word, 40, 3), {1: "data", 2: "address"}),
    )


def _level(word: int) -> tuple[str, bool | None]:
    """The level by the newer field where it says something, else by the older; and whether it was hit."""
    bits, number = _field(word, 5, 14), _field(word, 33, 4)
    name = _LEVEL_NUMBERS.get(number, "") or _first(bits, _LEVEL_BITS)
    if not name:
        return "", None
    remote = _field(word, 37, 1) == 1 or any(bits >> bit & 1 for bit in (8, 9, 10, 11))
    if remote and name in _CACHES:
        name = "remote_cache"
    elif remote and name == "memory":
        name = "remote_memory"
    return name, {2: True, 4: False}.get(bits & 6, True if number not in (0, _LEVEL_NUMBER_NONE) else None)


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of a sample, as PEBS and IBS give them: `latency_cycles` of the access; with the kernel's longer form
    also of the whole instruction and from its end to its retirement, where the CPU knows them."""

    latency_cycles: int
    instruction_cycles: int | None = None
    retire_cycles: int | None = None


def decode_weights(word: int, *, structured: bool) -> Weights:
    """Weights of a sample's weight word; `structured` for PERF_SAMPLE_WEIGHT_STRUCT."""
    if not structured:
        return Weights(latency_cycles=word)
    return Weights(
        latency_cycles=_field(word, 0, 32), instruction_cycles=_field(word, 32, 16), retire_cycles=_field(word, 48, 16)
    )
