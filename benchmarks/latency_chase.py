"""Latencies of this CPU beside a pointer chase written by hand in C.

    python benchmarks/latency_chase.py [--rounds 3]

Both in turn, so that neighbours fall on both alike. The chase visits few lines of each page in random order: with dense
ones the lines beside each miss, which prefetchers bring along, are hit later, and the mean is that of a mixture
(measured on a Zen 4 guest: memory 330 to 430 cycles instead of 530). It stays in few pages at a time, for the TLB's
sake. Chases of two lengths are timed and their difference taken, without those that took as long as if a line had come
from the next level out: a chase over a cache that others use too always has some. How large each chase is follows from
what the system says of the caches. The C file is compiled here, with gcc, into a temporary folder. Nothing is written
elsewhere.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

HERE = Path(__file__).parent
LINE_BYTES, PAGE_BYTES, WINDOW_PAGES = 64, 4096, 32
LEAST_PER_PAGE, TLB_PAGES = 8, 64
MEMORY_BYTES, MOST_LINES = 512 << 20, 1 << 20
"""For memory every page's share of lines, 64 MiB in all: an eighth of that stays in part in a large shared cache, when
nobody else uses it (read as 360 to 440 cycles instead of 520 to 550)."""

LAPS, LAYOUTS = 4, 9
SHORT, LONG = 16, 2048
"""Steps of a chase: few where lines are lost to others, so that most chases lost none; many where a chase would
else take no longer than a few steps of a coarse clock, with which its loop falls into step."""

CLOCK_STEPS_CYCLES = 150.0
"""No less than the clock's step, or the mean would lose what lies behind it."""


class Level(NamedTuple):
    """A level, as `setebench latency` reports it: cycles, and over how many lines a chase for it should go, in pieces
    of how many steps."""

    name: str
    finding: dict[str, Any]
    lines: int
    steps: int


class Chase:
    """The C side, and memory to chase through."""

    def __init__(self, folder: str) -> None:
        library = Path(folder) / "latency_chase.so"
        subprocess.run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", library, HERE / "latency_chase.c"], check=True)
        self._c = ctypes.CDLL(str(library))
        self._c.ticks_per_cycle.restype = ctypes.c_double
        for name in ("warm", "pairs"):
            getattr(self._c, name).restype = ctypes.c_void_p
        self._memory = mmap.mmap(-1, MEMORY_BYTES)
        self._bytes = np.frombuffer(self._memory, dtype=np.uint8)
        self._bytes[::PAGE_BYTES] = 1  # every page is there before anything is timed
        self._rng = np.random.default_rng()

    def cycles(self, level: Level, slow_by_cycles: float) -> float:
        """Cycles per load from a level, over several layouts, without chases `slow_by_cycles` slower than most."""
        return float(np.median([self._one_layout(level.lines, level.steps, slow_by_cycles) for _ in range(LAYOUTS)]))

    def _one_layout(self, lines: int, steps: int, slow_by_cycles: float) -> float:
        order = self._order(lines)
        base = self._bytes.ctypes.data
        self._c.link_lines(ctypes.c_void_p(base), ctypes.c_void_p(order.ctypes.data), ctypes.c_int64(len(order)))
        # many laps first: lines that are new to a shared cache are the first to be lost from it
        begin = self._c.warm(
            ctypes.c_void_p(base + int(order[0])), ctypes.c_int64(1 if lines >= MOST_LINES else 12 * lines)
        )
        count = max(LAPS * min(lines, 1 << 15) // (steps + steps // 2), 60000 // steps)
        whole, half = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        tables = (ctypes.c_void_p(each.ctypes.data) for each in (whole, half))
        before = self._c.ticks_per_cycle()
        self._c.pairs(ctypes.c_void_p(begin), ctypes.c_int64(count), ctypes.c_int64(steps), *tables)
        per_cycle = min(before, self._c.ticks_per_cycle())
        room = slow_by_cycles * per_cycle
        # short ones are averaged, for a coarse clock's sake
        average = np.median if steps == LONG else np.mean
        means = [float(average(own[own < np.median(own) + room])) for own in (whole, half)]
        return (means[0] - means[1]) / (steps / 2) / per_cycle

    def _order(self, lines: int) -> NDArray[np.int64]:
        """Offsets of `lines` lines, some in each of random pages, a few pages at a time."""
        # no more pages than a first TLB has entries, where the lines fit into so few
        per_page = LEAST_PER_PAGE if lines > TLB_PAGES * 32 else max(LEAST_PER_PAGE, -(-lines // TLB_PAGES))
        count = -(-lines // per_page)
        # neighbours where they are few: way predictors of first levels confuse lines of like addresses
        pages = np.arange(count) if count <= TLB_PAGES else self._rng.permutation(MEMORY_BYTES // PAGE_BYTES)[:count]
        apart = PAGE_BYTES // LINE_BYTES // per_page
        line = np.arange(per_page) * apart + (np.arange(count) * 5 % apart)[:, None]
        offsets = pages[:, None] * PAGE_BYTES + line * LINE_BYTES
        step = TLB_PAGES if count <= TLB_PAGES else WINDOW_PAGES
        windows = (offsets[n : n + step].ravel() for n in range(0, count, step))
        return np.concatenate([self._rng.permutation(window) for window in windows]).astype(np.int64)


def sizes_bytes() -> list[int]:
    """How large a chase for each cache is, nearest first: half of the first, four times that for the second, and
    no more than it must be for the third, of which others may hold a part."""
    found = {}
    for cache in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (cache / "type").read_text().strip() != "Instruction":
            found[int((cache / "level").read_text())] = 1024 * int((cache / "size").read_text().strip().rstrip("K"))
    if not found:
        raise SystemExit("the system gives no cache sizes, by which the chase by hand goes")
    sizes = [found[level] for level in sorted(found)]
    return [sizes[0] // 2, *(factor * size // 4 for factor, size in zip((16, 7), sizes[:-1], strict=False))]


def measured() -> list[Level]:
    """What `setebench latency` says, nearest level first."""
    command = [sys.executable, "-m", "setebench", "latency", "-q", "--format", "json"]
    document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    findings = {finding["parameter"]: finding for finding in document["findings"]}
    sizes = sizes_bytes()
    levels = [
        Level(f"l{number}", findings.get(f"latency.l{number}", {}), size // LINE_BYTES, SHORT if number > 2 else LONG)
        for number, size in enumerate(sizes, 1)
    ]
    return [*levels, Level("memory", findings.get("latency.memory", {}), MOST_LINES, SHORT)]


def compare(chase: Chase, rows: dict[str, list[tuple[float, float]]]) -> None:
    """One round: ours, then by hand for each level that ours reported; both go to `rows`."""
    levels = measured()
    reported = [level.finding.get("value") for level in levels]
    for number, level in enumerate(levels):
        if reported[number] is None:
            continue
        beyond = next((value for value in reported[number + 1 :] if value is not None), 2.0 * reported[number])
        slow_by = max((beyond - reported[number]) / 2, CLOCK_STEPS_CYCLES)
        by_hand = chase.cycles(level, slow_by)
        if by_hand > reported[number] + slow_by:
            print(f"{level.name}: most lines of the chase by hand were lost to others", file=sys.stderr)
            continue
        rows.setdefault(level.name, []).append((reported[number], by_hand))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side measures (default: 3)")
    rounds = parser.parse_args().rounds
    rows: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        chase = Chase(folder)
        for _ in range(rounds):
            compare(chase, rows)
    table = []
    for name, pairs in rows.items():
        ours, hand = np.array(pairs).T
        spread = f"{hand.min():.2f} to {hand.max():.2f}"
        table.append(
            [
                name,
                len(pairs),
                f"{np.median(ours):.2f}",
                f"{np.median(hand):.2f}",
                spread,
                f"{np.median(ours / hand):.3f}",
            ]
        )
    print(
        tabulate(
            table, ["level", "rounds", "setebench, cycles", "by hand, cycles", "from", "ratio"], disable_numparse=True
        )
    )


if __name__ == "__main__":
    main()
