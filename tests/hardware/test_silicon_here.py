"""What this CPU is, held against what x86-64 cores are and have been: no model is looked up.

Each part is measured once, and again, three times in all, where it says something that no core does. Then it is wrong,
unless the doctor says what disturbed it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import pytest
from native_fixture import setebench
from setebench.scenarios.hierarchy.first_cache import first_cache_findings, measure_strides
from setebench.scenarios.hierarchy.tlbs import measure_tlbs, tlb_findings, tlb_pages

from setebench import registry, session
from setebench.host.environment import read_environment
from setebench.host.processor import reported_caches
from setebench.native.machine import NativeMachine
from setebench.results import Finding, Outcome
from setebench.scenario import Context

pytestmark = pytest.mark.long(60)

Findings = Mapping[str, Finding]

TRIES, ROUNDS = 3, 3
CONTROLS = ("load", "steal time", "CPU quota")
"""The doctor's checks of what takes a core, its caches or its time away while something is measured."""

KNOWN = (Outcome.MEASURED, Outcome.AT_LEAST)


class Silicon:
    """The machine, and what its parts were last found to be."""

    def __init__(self, machine: NativeMachine) -> None:
        self.machine, self._context = machine, Context(machine=machine)
        self._ask: dict[str, Callable[[], list[Finding]]] = {
            "latency": self._latency,
            "first cache": lambda: list(
                first_cache_findings([measure_strides(self._with_levels()) for _ in range(ROUNDS)])
            ),
            "TLBs": self._tlbs,
            "bandwidth": lambda: (
                session.run("bandwidth", self.machine, fast=True, kernel=("load",), threads="1").findings
            ),
        }
        self._found: dict[str, Findings] = {}

    def _latency(self) -> list[Finding]:
        self._context = Context(machine=self.machine)
        return list(registry.scenario("latency").answer(self._context))

    def _tlbs(self) -> list[Finding]:
        pages = tlb_pages(self._context)
        try:
            return list(tlb_findings([measure_tlbs(pages) for _ in range(ROUNDS)], []))
        finally:
            if pages:
                pages.close()

    def _with_levels(self) -> Context:
        """The context, in which levels are known."""
        if self._context.calibration.levels is None:
            self.known("latency")
        return self._context

    def known(self, part: str, *, anew: bool = False) -> Findings:
        """By parameter: what was found before, if it was."""
        if anew or part not in self._found:
            self._found[part] = {each.parameter: each for each in self._ask[part]()}
        return self._found[part]

    def hold(self, part: str, complaints: Callable[[Findings], Iterator[str]]) -> None:
        """Nothing about a part may be complained of in each of the tries, if the machine was fit to be measured."""
        for number in range(TRIES):
            if not (said := list(complaints(self.known(part, anew=number > 0)))):
                return
        if disturbed := disturbances():
            pytest.skip(f"disturbed by {'; '.join(disturbed)}: {'; '.join(said)}")
        pytest.fail(f"in each of {TRIES} tries, the last one: {'; '.join(said)}")


def disturbances() -> list[str]:
    """What the doctor calls bad of its controls."""
    shown = setebench("doctor", "-q", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    checks = {each["name"]: each for each in json.loads(shown.stdout)["checks"]}
    assert set(CONTROLS) <= checks.keys()
    return [f"{name} ({checks[name]['found']})" for name in CONTROLS if checks[name]["status"] == "bad"]


@pytest.fixture(scope="module")
def silicon(native: NativeMachine) -> Silicon:
    return Silicon(native)


def within(found: Findings, name: str, low: float, high: float) -> Iterator[str]:
    """A complaint about a number that isn't known or lies elsewhere."""
    one = found.get(name)
    if one is None or one.outcome is not Outcome.MEASURED:
        yield f"{name} is {one.outcome if one else 'not there'}"
    elif not low <= float(one.value) <= high:
        yield f"{name} is {one.value}, not between {low} and {high}"


def test_the_first_level_takes_three_to_six_cycles_and_is_known_to_a_third_of_one(silicon: Silicon) -> None:
    def complaints(found: Findings) -> Iterator[str]:
        yield from within(found, "latency.l1", 3.0, 6.0)
        one = found["latency.l1"]
        if one.low is None or one.high is None or (one.high - one.low) / 2 >= 0.3:
            yield f"latency.l1 is only known to lie between {one.low} and {one.high}"

    silicon.hold("latency", complaints)


def test_the_second_level_takes_two_to_eight_times_that(silicon: Silicon) -> None:
    def complaints(found: Findings) -> Iterator[str]:
        first = found["latency.l1"].value or float("nan")
        yield from within(found, "latency.l2", 2 * first, 8 * first)

    silicon.hold("latency", complaints)


def test_memory_takes_forty_to_a_thousand_nanoseconds(silicon: Silicon) -> None:
    silicon.hold("latency", lambda found: within(found, "latency.memory.ns", 40.0, 1000.0))


def test_the_first_cache_is_one_that_cores_have(silicon: Silicon) -> None:
    """And the one that a processor on bare metal says it has."""
    environment = read_environment()
    said = {} if environment.hypervisor.present is not False else reported_caches(environment.to_builtins())

    def complaints(found: Findings) -> Iterator[str]:
        yield from chain(
            within(found, "cache.l1.size", 8 << 10, 256 << 10),
            within(found, "cache.l1.ways", 2, 32),
        )
        for name in said.keys() & {"cache.l1.size", "cache.l1.ways"}:
            yield from within(found, name, said[name], said[name])

    silicon.hold("first cache", complaints)


def test_the_first_data_tlb_has_16_to_256_entries(silicon: Silicon) -> None:
    def complaints(found: Findings) -> Iterator[str]:
        one = found["tlb.l1.entries.4k"]
        if one.outcome not in KNOWN or not 16 <= one.value <= 256:
            yield f"tlb.l1.entries.4k is {one.value} ({one.outcome})"

    silicon.hold("TLBs", complaints)


def test_the_first_cache_gives_16_bytes_a_cycle_and_no_more_than_any_core_loads(silicon: Silicon) -> None:
    """Up to three loads of 64 bytes."""

    def complaints(found: Findings) -> Iterator[str]:
        (name,) = (each for each in found if each.startswith("bandwidth.l1.load.") and each.endswith(".per_cycle"))
        yield from within(found, name, 16.0, 200.0)

    silicon.hold("bandwidth", complaints)
