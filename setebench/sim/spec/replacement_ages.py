"""Replacement by ages of two bits (QLRU), in the notation of Abel and Reineke (nanoBench, ISPASS 2020).

A name such as H11_M1_R0_U0 has four parts, and UMO as a fifth:

* Hxy: a hit gives a line of age 3 the age x (0 to 2), one of age 2 the age y (0 or 1), a younger one 0.
* Mx: a new line has age x (0 to 3). MRpx: only one new line in p has, at random, all others age 3.
* R0, R1, R2: a full set gives up its first line of age 3. Where none is, R1 gives up the first line; R0 and R2 leave
  that open, and so do the same here. R2 fills a set that has room from its last way on, the others from the first.
* U0 to U3: where no line of a full set has age 3, U0 raises all ages alike until one has; U1 does so with all lines but
  the one just used; U2 adds one to all ages below 3; U3 does so to all but the line just used.
* UMO: ages are raised when a line has to leave, instead of after every access.
"""

from __future__ import annotations

import re

import msgspec

VARIANT = "H([0-2])([01])_M(?:R([1-9][0-9]{0,2}))?([0-3])_R([0-2])_U([0-3])(_UMO)?"
"""What names of variants are, as a regular expression."""

NAMED = {
    "bit_plru": "H00_M0_R0_U1",  # an age of 0 is a bit that is set, one of 3 a bit that isn't
    "srrip": "H00_M2_R0_U0_UMO",  # Jaleel et al., ISCA 2010: hit priority, two bits; so named by Abel and Reineke
    "brrip": "H00_MR322_R0_U0_UMO",  # the same paper's bimodal one: the throttle is 1/32
}
"""Policies that have names of their own."""


class Ages(msgspec.Struct):
    """A variant: the letters and digits of its name."""

    hit_age_3: int
    hit_age_2: int
    insert_age: int
    insert_one_in: int
    victim: int
    update: int
    update_on_miss: int


def ages(name: str) -> Ages | None:
    """The variant of this name, None for no name."""
    found = re.fullmatch(VARIANT, name)
    if found is None:
        return None
    x, y, one_in, age, victim, update, on_miss = found.groups()
    return Ages(int(x), int(y), int(age), int(one_in or 1), int(victim), int(update), int(on_miss is not None))
