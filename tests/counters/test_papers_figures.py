"""Our formulas give the papers' figures; where a paper contradicts itself, the test says where."""

from __future__ import annotations

import pytest

from setebench.counters.counted import Count
from setebench.counters.metrics import DEFINITIONS, Measurement, evaluate
from setebench.kernels import KERNELS

ROUNDED = 0.015
"""Bandwidths are printed to one decimal."""


def rate(metric: str, role: str, events: float) -> float:
    """What a metric says, in GB/s, of so many events in a second."""
    counts = {role: Count(role=role, value=round(events), enabled=1, running=1)}
    found = evaluate(DEFINITIONS[metric], Measurement(counts=counts, seconds=1.0)).value
    assert found is not None
    return found


def test_stream_reads_what_helm_and_taura_state() -> None:
    """Helm and Taura 2019, 5.2: 21.974 GB for arrays of 610.4 MB, each read or allocated once a pass. Their text says
    11 passes; only 12 give that volume."""
    triad = KERNELS["triad"]
    arrays = (triad.read_bytes + triad.allocated_bytes) / (triad.program_bytes / triad.arrays)
    assert arrays == 3
    volume = {passes: passes * arrays * 610.4e6 for passes in (11, 12)}
    assert rate("memory_read.controllers", "mem_read", volume[12] / 64) == pytest.approx(21.974, abs=0.001)
    assert rate("memory_read.controllers", "mem_read", volume[11] / 64) == pytest.approx(20.143, abs=0.001)


@pytest.mark.parametrize(
    ("metric", "role", "million_events", "bandwidth"),
    [
        ("memory_read.home", "home_read", 985, 63.1),
        ("memory_write.home", "home_write", 403, 25.8),
        ("memory_read.offcore", "offcore_mem_read", 162, 10.4),
        ("remote_read", "remote_read", 125, 8.0),
        ("link_traffic", "link_flit", 2032, 16.3),
        ("link_traffic", "link_flit", 1368, 11.0),
    ],
)
def test_event_rates_are_the_bandwidths_that_molka_et_al_print(
    metric: str, role: str, million_events: float, bandwidth: float
) -> None:
    """Molka et al. 2017, Tables 2 and 3."""
    assert rate(metric, role, million_events * 1e6) == pytest.approx(bandwidth, rel=ROUNDED)


def test_one_entry_of_their_second_table_contradicts_itself() -> None:
    """Molka et al. 2017, Table 2: million transfers a second, bytes of each, GB/s. Writes to L3 are 234 million at 15.0
    GB/s, or 17.7 GB/s at the 277 million that are printed, twice."""
    table = {
        "l1 read": (4993, 32, 159.8),
        "l1 write": (2496, 32, 79.9),
        "l2 read": (1171, 64, 75.0),
        "l2 write": (398, 64, 25.5),
        "l3 read": (467, 64, 29.9),
        "l3 write": (277, 64, 15.0),
        "memory read": (162, 64, 10.4),
        "memory write": (120, 64, 7.7),
        "remote read": (125, 64, 8.0),
        "remote write": (85, 64, 5.5),
    }
    wrong = [
        name
        for name, (transfers, size, bandwidth) in table.items()
        if transfers * size / 1000 != pytest.approx(bandwidth, rel=ROUNDED)
    ]
    assert wrong == ["l3 write"]


@pytest.mark.parametrize(
    ("kernel", "factor"),
    [("load", 1.0), ("store", 2.0), ("copy", 1.5), ("daxpy", 1.0), ("ddot", 1.0), ("triad", 4 / 3)],
)
def test_lines_that_are_allocated_to_be_overwritten_are_traffic_too(kernel: str, factor: float) -> None:
    """Röhl et al. 2015, 1.2: traffic over what the program asks for. Their ddot reads and writes a[i], so is a daxpy,
    whose destination is read anyway: nothing is added."""
    one = KERNELS[kernel]
    assert one.traffic_bytes / one.program_bytes == pytest.approx(factor)
    assert one.bypass is False
    assert all(other.traffic_bytes == other.program_bytes for other in KERNELS.values() if other.bypass)
