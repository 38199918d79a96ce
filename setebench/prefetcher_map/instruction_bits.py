"""Which bits of an instruction's address matter to a table: another access of the run, or the first one of a region,
comes from an address that differs in some bits; what is followed all the same does not go by them."""

from __future__ import annotations

from collections.abc import Callable

FAR_BIT = 25
"""The highest bit that a probe can place; changed, it keeps two instructions from overlapping."""

LOW_BITS = 16
"""Bits that are asked one by one in any case; those above first all together."""

FAR_BITS_MATTER = (
    f"instructions whose addresses differ in bit {FAR_BIT} may be told apart, and lower bits are only asked beside a "
    "change of that one"
)


def bits_that_matter(same: int, followed: Callable[[int], bool | None]) -> tuple[int, ...] | None:
    """The bits below `FAR_BIT` that, changed in the address `same`, are not followed. None where one is unclear, or
    where the far bit itself may matter.

    Bits above the low ones are asked one by one only if they matter when all of them change at once."""
    far = same ^ (1 << FAR_BIT)
    if followed(far) is not True:
        return None
    low = _mattering(range(LOW_BITS), far, followed)
    if low is None:
        return None
    above = range(LOW_BITS, FAR_BIT)
    together = followed(far ^ sum(1 << bit for bit in above))
    if together is None:
        return None
    high = () if together else _mattering(above, far, followed)
    return None if high is None or (not together and not high) else (*low, *high)


def _mattering(bits: range, far: int, followed: Callable[[int], bool | None]) -> tuple[int, ...] | None:
    matter = []
    for bit in bits:
        told = followed(far ^ (1 << bit))
        if told is None:
            return None
        if not told:
            matter.append(bit)
    return tuple(matter)
