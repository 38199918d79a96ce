"""Formulas against the numbers printed in the papers, their inconsistencies included."""

from __future__ import annotations

import pytest

from setebench.counters.metrics import DEFINITIONS, FLITS_PER_LINE, Measurement, evaluate
from setebench.counters.protocol import Count
from setebench.counters.volumes import (
    expected_volume,
    imbalance,
    triangle_rows,
    write_allocate_factor,
)
from setebench.kernels import KERNELS

# -- Helm and Taura 2019 ------------------------------------------------------------------------------------------


# -- Molka et al. 2017 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "flits"), [(254, 2032), (171, 1368)])
def test_eight_flits_a_line_on_the_link(lines: int, flits: int) -> None:
    assert lines * FLITS_PER_LINE == flits
    counts = {"link_flit": Count(role="link_flit", value=flits * 10**6, enabled=1, running=1)}
    metric = evaluate(DEFINITIONS["link_traffic"], Measurement(counts=counts, seconds=1.0))
    assert metric.value == pytest.approx(lines * 64 / 1000)


# -- Röhl et al. 2015 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "factor"),
    [
        ("load", 1.0),
        ("store", 2.0),
        ("copy", 1.5),
        ("triad", 4 / 3),  # called stream there
        ("vector_triad", 1.25),  # called triad there
        ("daxpy", 1.0),  # printed as ddot there
        ("ddot", 1.0),
        ("store_nt", 1.0),
        ("copy_nt", 1.0),
        ("triad_nt", 1.0),
    ],
)
def test_write_allocate_factors(kernel: str, factor: float) -> None:
    assert write_allocate_factor(KERNELS[kernel]) == pytest.approx(factor)
    volume = expected_volume(KERNELS[kernel], 1 << 20, passes=3)
    program = 3 * (len(KERNELS[kernel].reads) + len(KERNELS[kernel].writes)) * (1 << 20)
    assert volume.total_bytes == pytest.approx(factor * program)


def test_halves_of_a_triangle_are_three_to_one() -> None:
    halves = [triangle_rows(8192, 0, 4096), triangle_rows(8192, 4096, 8192)]
    assert halves == [25_167_872, 8_390_656]
    assert halves[0] / halves[1] == pytest.approx(3, rel=2e-4)
    assert imbalance(halves) == pytest.approx(1.5, rel=1e-4)


def test_imbalance_needs_work() -> None:
    assert imbalance([5, 5, 5]) == 1 and imbalance([9, 0, 0]) == 3
    with pytest.raises(ValueError, match="no thread worked"):
        imbalance([0, 0])
