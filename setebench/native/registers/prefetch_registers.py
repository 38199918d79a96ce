"""Which model-specific register switches hardware prefetchers off, and what its bits are, as the vendors document them.

Intel: "Disclosure of Hardware Prefetcher Control on Some Intel Processors", the tables of MSR 1A4H in volume 4 of the
Software Developer's Manual, and "Hardware Prefetch Controls for Intel Atom Cores" (357930). AMD: Prefetch Control,
MSR C000_0108, in the Processor Programming References of family 19h and later. A set bit turns a prefetcher off.
Models that are not listed have no switches here: a reserved bit of a register must not be tried.
"""

from __future__ import annotations

from typing import NamedTuple

INTEL_REGISTER, AMD_REGISTER = 0x1A4, 0xC000_0108


class Bit(NamedTuple):
    """A bit that turns one prefetcher off: its vendor's name for it, and the level whose accesses that watches."""

    bit: int
    name: str
    level: int | None


class Layout(NamedTuple):
    """A register's address and its switches."""

    register: int
    bits: tuple[Bit, ...]


REDWOOD_COVE = (
    Bit(0, "L2 stream", 2),
    Bit(1, "L2 adjacent line", 2),
    Bit(2, "L1 next line (DCU)", 1),
    Bit(3, "L1 IP", 1),
    Bit(4, "L1 next page", 1),
    Bit(5, "L2 AMP", 2),
    Bit(6, "LLC page", None),
    Bit(7, "array of pointers", None),
)
L2_STREAM, L1_NEXT_LINE, L2_AMP = REDWOOD_COVE[0], REDWOOD_COVE[2], REDWOOD_COVE[5]
SINCE_NEHALEM = REDWOOD_COVE[:4]
GOLDEN_COVE = (*SINCE_NEHALEM, L2_AMP)
SMALL_CORES = (L2_STREAM, L1_NEXT_LINE)
GRACEMONT = (*SMALL_CORES, L2_AMP)

_INTEL_MODELS = {
    SINCE_NEHALEM: (
        *(0x1A, 0x1E, 0x1F, 0x2E, 0x25, 0x2C, 0x2F),  # Nehalem, Westmere
        *(0x2A, 0x2D, 0x3A, 0x3E),  # Sandy Bridge, Ivy Bridge
        *(0x3C, 0x3F, 0x45, 0x46, 0x3D, 0x47, 0x4F, 0x56),  # Haswell, Broadwell
        *(0x4E, 0x5E, 0x55, 0x8E, 0x9E, 0xA5, 0xA6, 0x66),  # Skylake to Comet Lake, Cannon Lake
        *(0x6A, 0x6C, 0x7D, 0x7E, 0x9D, 0xA7, 0x8C, 0x8D),  # Ice Lake, Rocket Lake, Tiger Lake
    ),
    GOLDEN_COVE: (0x97, 0x9A, 0xB7, 0xBA, 0xBF, 0x8F, 0xCF),  # Alder Lake, Raptor Lake, Sapphire and Emerald Rapids
    REDWOOD_COVE: (0xAA, 0xAC, 0xAD, 0xAE),  # Meteor Lake, Granite Rapids
    SMALL_CORES: (
        *(0x37, 0x4A, 0x4D, 0x4C, 0x5A, 0x5D),  # Silvermont, Airmont
        *(0x5C, 0x5F, 0x7A, 0x86, 0x96, 0x9C),  # Goldmont, Tremont
        *(0x57, 0x85),  # Xeon Phi
    ),
    GRACEMONT: (0xBE, 0xAF, 0xB6),  # Alder Lake N, Sierra Forest, Grand Ridge
}
"""Models of family 6; of hybrid processors the large cores."""

_AMD_BITS = (
    Bit(0, "L1 stream", 1),
    Bit(1, "L1 stride", 1),
    Bit(2, "L1 region", 1),
    Bit(3, "L2 stream", 2),
    Bit(5, "up/down", 2),
)
_AMD_FIRST_FAMILY = 0x19


def layout_of(
    vendor: str | None, family: int | None, model: int | None, *, small_core: bool = False, announced: bool = False
) -> Layout | None:
    """The switches of a processor, None for one whose switches are not known.

    `small_core`: the CPU is one of a hybrid processor's efficient cores. `announced`: CPUID leaf 8000_0021 has bit 13
    of EAX set, by which AMD's processors say that they have the register."""
    bits = next((bits for bits, models in _INTEL_MODELS.items() if model in models), None)
    if vendor == "GenuineIntel" and family == 6 and bits is not None:
        return Layout(INTEL_REGISTER, GRACEMONT if small_core and L2_AMP in bits else bits)
    if vendor == "AuthenticAMD" and announced and family is not None and family >= _AMD_FIRST_FAMILY:
        return Layout(AMD_REGISTER, _AMD_BITS)
    return None
