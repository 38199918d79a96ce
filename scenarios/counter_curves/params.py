"""Everything that can be set of the curves."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables, each with its unit and why it is what it is."""

    delays: tuple[int, ...] = (0, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512)
    """No-operations behind four lines: from none to a tenth of any core's bandwidth (four a cycle, 100 ns a line)."""

    repeats: int = 6
    """Of every point of the throttled reader, as many as Helm and Taura 2019 took (section 4)."""

    rounds: int = 2048
    """Of four lines, in a run: 512 KiB a thread, 40 us and more at any bandwidth, beside which starting together is
    nothing."""

    smallest_bytes: int = 8192
    """Working sets begin here: any first cache holds it."""

    largest_bytes: int = 64 << 20
    """And end here: twice the part of a last cache that a core of today has."""

    lines: int = 1 << 20
    """Lines that a point of a working set passes over: in the largest one once, in others several times."""

    steps: int = 1024
    """Of a chase between two starts of its loop."""

    little_more: float = 1.03
    """A rate that one thread more, or a shorter delay, raises by less than this is the highest (`infer.loaded`)."""

    def quicker(self) -> Params:
        """With --fast."""
        return replace(self, delays=(0, 16, 64, 256), repeats=3, largest_bytes=16 << 20, lines=1 << 18)

    def for_slow_machine(self) -> Params:
        """For a machine that takes far longer than its ticks say."""
        return replace(
            self,
            delays=(0, 8, 16, 32, 64, 128, 256, 512),
            repeats=3,
            rounds=256,
            largest_bytes=32 << 20,
            lines=1 << 14,
            steps=256,
        )
