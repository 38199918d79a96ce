"""Sets and ways that a size can have: sets are a power of two, or a small odd multiple of one."""

from __future__ import annotations

from dataclasses import dataclass

MOST_WAYS = 32
MOST_SLICES = 64
MOST_ODD = 5
"""Times a power of two, sets of a cache whose lines go by the remainder: 1.5 MiB of 16 ways have 3 times 512."""
USUAL_WAYS = (8, 16, 12, 4, 2, 20, 24, 10, 6, 32)
"""Ways to assume, the most usual first."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`sets` of each of `slices` parts, with `ways` lines each."""

    sets: int
    ways: int
    slices: int = 1

    @property
    def lines(self) -> int:
        return self.sets * self.ways * self.slices


def of_size_and_ways(lines: int, ways: int, most_slices: int = 1, most_odd: int = 1) -> Shape | None:
    """The shape of so many lines and ways, None where the sets are no power of two, even in slices, and no odd multiple
    up to `most_odd` of one."""
    total, rest = divmod(lines, ways)
    if rest or not total:
        return None
    power = total & -total
    if total // power <= most_slices:
        return Shape(power, ways, total // power)
    return Shape(total, ways) if total // power <= most_odd else None


def of_size(lines: int) -> Shape | None:
    """A usual shape of exactly so many lines."""
    found = (of_size_and_ways(lines, ways) for ways in (*USUAL_WAYS, *range(1, MOST_WAYS + 1)))
    return next((shape for shape in found if shape is not None), None)


def at_least(lines: int, ways: int | None = None) -> Shape:
    """The smallest shape that holds so many lines: of these ways, or of 8 to 15 (and 8 for a power of two of lines)."""
    if ways is not None:
        return Shape(_power_above(-(-lines // ways)), ways)
    sets = _power_above(-(-lines // 15))
    return Shape(sets, max(-(-lines // sets), 1))


def _power_above(number: int) -> int:
    """The smallest power of two that is not less."""
    return 1 << max(number - 1, 0).bit_length()
