"""Streams without a machine: who runs where, what a kernel asks for, and machines that lack them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from setebench.scenarios.bandwidth.findings import findings_of
from setebench.scenarios.bandwidth.sets import bytes_of, shared

from setebench.calibration import Levels
from setebench.experiments.streams.choice import choose_cpus
from setebench.experiments.streams.timed import Case, Round, Stream
from setebench.machine import Facts
from setebench.probe import Base, Kind, Probe
from setebench.probe.kernels import KERNELS
from setebench.probe.notation import parse
from setebench.report.plots.plot import bandwidth_figure, loaded_latency_figure
from setebench.results import Finding, Outcome
from setebench.stats.estimate import Interval

A = Base("a")


def facts(siblings: tuple[tuple[int, ...], ...], **others: object) -> Facts:
    cpus = tuple(sorted(cpu for group in siblings for cpu in group))
    return Facts(name="some CPU", kind="sim", cpus=cpus, siblings=siblings, ticks_per_second=1e9, **others)  # type: ignore[arg-type]


@given(st.integers(1, 4), st.integers(1, 3), st.data())
def test_every_cpu_is_used_once_and_the_measured_one_first(cores: int, smt: int, data: st.DataObject) -> None:
    known = facts(tuple(tuple(core + cores * thread for thread in range(smt)) for core in range(cores)))
    first = data.draw(st.sampled_from(known.cpus))
    chosen = choose_cpus(known, first, len(known.cpus))
    assert (chosen[0], sorted(chosen)) == (first, list(known.cpus))
    assert len({cpu % cores for cpu in chosen[:cores]}) == cores


@given(
    st.sampled_from([(name, rolled) for name, kernel in KERNELS.items() for rolled in kernel.forms]),
    st.integers(8, 30),
    st.sampled_from((8, 16, 32, 64)),
    st.integers(-64, 64),
)
def test_a_stream_can_be_written_and_read(form: tuple[str, bool], power: int, width: int, offset: int) -> None:
    name, rolled = form
    probe = Probe().start().stream(A + 64 * offset, name, 1 << power, width, rolled=rolled).stop()
    assert parse(str(probe)) == probe
    assert [operation.rolled for operation in probe.operations] == [False, rolled, False]
    (row,) = (row for row in probe.rows.tolist() if row[0] == Kind.STREAM)
    assert row[3] == (width if KERNELS[name].accesses else 0)
    assert row[5] == 1 << power


def ends(**known: float) -> dict[str, Interval]:
    """Where levels end, exactly."""
    return {name: Interval(value, value, value) for name, value in known.items()}


LEVELS = Levels(
    cycles={"l1": 5.0, "l2": 16.0, "l3": 60.0, "memory": 300.0},
    capacity=ends(l1=32768.0, l2=1048576.0, l3=8388608.0),
)
FOUR = facts(((0,), (1,), (2,), (3,)))


@given(
    st.lists(st.floats(13.0, 25.0), min_size=1, max_size=4),
    st.integers(1, 8),
    st.integers(1, 2),
    st.booleans(),
)
def test_a_data_set_outgrows_the_level_before_and_fits_its_own(
    logarithms: list[float], threads: int, smt: int, last_known: bool
) -> None:
    capacities = {f"l{number}": 2.0**each for number, each in enumerate(sorted(logarithms), 1)}
    cycles = {name: 5.0 * 3**number for number, name in enumerate([*capacities, "memory"])}
    known = capacities if last_known or len(capacities) == 1 else dict(list(capacities.items())[:-1])
    machine = facts(tuple((core, core + threads) if smt == 2 else (core,) for core in range(threads)))
    cpus = machine.cpus
    levels = Levels(cycles=cycles, capacity=ends(**known))
    found = bytes_of(levels, machine, cpus)
    shares = {name: end / (len(cpus) if shared(levels, name) else smt) for name, end in known.items()}
    for number, name in enumerate(capacities):
        if found[name] and name in shares:
            assert found[name] <= 0.75 * shares[name]
        if found[name] and number:
            assert found[name] >= 1.49 * shares[f"l{number}"]


CPUS = (0,)


def stream(level: str, kernel: str, rates: dict[bool, list[float]], shared: bool = False) -> Stream:
    """A stream in whose rounds without a rate of their own for the core there is half of what there is of gigabytes."""
    found = Stream.over(Case(KERNELS[kernel], "64", CPUS), level, 1 << 14, 1 << 17, shared=shared)
    found.rounds = {rolled: [Round(each, each / 2) for each in own] for rolled, own in rates.items()}
    return found


def reported(measured: Stream) -> dict[str, Finding]:
    return {found.parameter: found for found in findings_of(measured)}


def test_a_rate_is_what_good_rounds_reach_in_the_faster_form() -> None:
    rounds = [100.0, 60.0, 101.0, 70.0, 100.5, 99.0]
    found = reported(stream("l2", "store", {False: [50.0, 51.0], True: rounds}))
    name = "bandwidth.l2.store.64.threads_1"
    assert set(found) == {name, f"{name}.traffic", f"{name}.per_cycle"}
    rate = found[name]
    assert rate.outcome is Outcome.MEASURED and rate.value == pytest.approx(100.6, abs=0.2)
    assert rate.low is not None and rate.high is not None and rate.low <= 100.0 and 101.0 < rate.high < 110.0
    assert "6 rounds (60 to 101 GB/s)" in rate.method and ", rolled" in rate.method
    assert found[f"{name}.traffic"].value == pytest.approx(2 * float(rate.value))
    assert (found[f"{name}.per_cycle"].value, found[f"{name}.per_cycle"].unit) == (rate.value / 2, "bytes/cycle")


def test_plots_are_drawn_from_evidence_alone() -> None:
    sweep = {"kernel": "load", "width": "64", "size_bytes": [4096, 8192], "rounds_gb_per_s": [[2.0, 3.0], [4.0, 5.0]]}
    sweeps = [{**sweep, "cpus": [0]}, {**sweep, "cpus": [0, 1]}]
    figure = bandwidth_figure({"bandwidth": {"sweeps": sweeps}})
    assert [axes.get_ylabel() for axes in figure.axes] == ["GB/s (log scale)"]
    points = [{"threads": 1, "no_operations": 0, "gb_per_s": 5.0, "latency_ns": 120.0}]
    loaded = loaded_latency_figure({"loaded_latency": {"idle_ns": 90.0, "points": points}})
    assert loaded.axes[0].get_xlabel() == "memory bandwidth, lines read (GB/s)"
