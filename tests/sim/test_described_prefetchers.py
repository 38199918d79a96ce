"""The truth about prefetchers without a name is what machines do: of random ones, line by line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from watched_levels import WatchedLevel

from setebench.sim import spec
from setebench.sim.random.machine import random_machine
from setebench.sim.truth.described import (
    LEAST_COUNTED,
    REPEATED,
    SEQUENCES,
    described,
    lead,
    lead_of,
    visit,
)
from setebench.sim.truth.families import identity_of, member

SEEDS = range(40)


def near(prefetcher: spec.AnyPrefetcher) -> spec.AnyPrefetcher:
    """The same into level 2 where it fills a third one, which a watched machine hasn't."""
    return replace(prefetcher, fills="l2") if prefetcher.fills == "l3" else prefetcher


def others() -> list[tuple[int, spec.AnyPrefetcher, int]]:
    """(seed, prefetcher, line size) of random machines' prefetchers without a name, alone at their level."""
    found = []
    for seed in SEEDS:
        machine = random_machine(seed)
        for level in (1, 2):
            own = [each for each in machine.prefetchers if identity_of(each) == f"l{level}.other"]
            if len(own) == 1:
                found.append((seed, near(own[0]), machine.line_size_bytes))
    return found


def streamers() -> list[tuple[int, spec.AnyPrefetcher, int]]:
    """The same of prefetchers that findings know the lead of."""
    return [
        (seed, near(each), random_machine(seed).line_size_bytes)
        for seed in SEEDS
        for each in random_machine(seed).prefetchers
        if isinstance(each, spec.Streamer | spec.NextLine) and "load" in each.trained_by
    ]


def practise(level: WatchedLevel, name: str) -> None:
    sequence = SEQUENCES[name](0, level.page_lines)
    counted = max(len(sequence), LEAST_COUNTED)
    level.load_in_pages(sequence, -(-REPEATED // counted))


def test_leads_of_other_prefetchers_are_those_of_machines() -> None:
    seen = set()
    for seed, prefetcher, line in others():
        reported = described((prefetcher,), line)
        step = -1 if reported.directions == "down" else 1
        way = "up" if step > 0 else "down"
        level = practised(prefetcher, line, way)
        level.scatter()
        assert tuple(lead(level, step)[0]) == reported.lead, (seed, prefetcher)
        seen.add(type(prefetcher))
    assert len(seen) >= 4


def practised(prefetcher: spec.AnyPrefetcher, line: int, name: str) -> WatchedLevel:
    level = WatchedLevel(prefetcher, line=line)
    level.scatter()
    practise(level, name)
    return level


def test_patterns_of_other_prefetchers_are_those_of_machines() -> None:
    for seed, prefetcher, line in others()[::6]:
        reported = described((prefetcher,), line)
        for name, sequence in SEQUENCES.items():
            level = practised(prefetcher, line, name)
            page = level.fresh_page()
            seen = visit(level, sequence(page, level.page_lines), page)
            assert seen.covered == (name in reported.patterns), (seed, name)


def test_leads_of_named_prefetchers_are_those_of_machines() -> None:
    for seed, prefetcher, line in streamers()[::4]:
        step = -1 if getattr(prefetcher, "directions", "up") == "down" else 1
        level = WatchedLevel(prefetcher, line=line)
        assert tuple(lead(level, step)[0]) == lead_of(prefetcher, line, step), (seed, prefetcher)


@pytest.mark.parametrize("filter_", [False, True])
@pytest.mark.parametrize("depth", [2, 4, 8])
def test_a_stream_buffer_leads_runs_as_the_family_whose_rules_it_follows(depth: int, filter_: bool) -> None:
    buffer = spec.StreamBuffer(level=1, fills="l1", depth=depth, filter=filter_)
    found = member(buffer)
    assert found is not None
    assert lead_of(buffer, 64) == lead_of(found.known, 64)
