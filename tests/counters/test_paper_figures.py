"""Formulas against the numbers printed in the papers, their inconsistencies included."""

from __future__ import annotations

import pytest

from setebench.counters.metrics import DEFINITIONS, FLITS_PER_LINE, Measurement, evaluate
from setebench.counters.protocol import Count
from setebench.counters.volumes import (
    expected_volume,
    imbalance,
    relative_error,
    transfers_per_second,
    triangle_rows,
    write_allocate_factor,
)
from setebench.kernels import KERNELS

# -- Helm and Taura 2019 ------------------------------------------------------------------------------------------

ARRAY_MEGABYTES = 610.4
TRIAD_GIGABYTES = 21.974
"""Section 4.3.2: what STREAM's triad reads. The text multiplies three arrays by 11 passes, which is 20.143 GB; the
number printed is that of 12."""


def test_helms_volume_is_that_of_twelve_passes() -> None:
    array_bytes = int(ARRAY_MEGABYTES * 1e6)
    read = {passes: expected_volume(KERNELS["triad"], array_bytes, passes).read_bytes / 1e9 for passes in (11, 12)}
    assert read[12] == pytest.approx(TRIAD_GIGABYTES, abs=0.001)
    assert read[11] == pytest.approx(20.143, abs=0.001)


def test_counted_lines_of_helms_triad_give_its_bandwidth() -> None:
    lines = round(TRIAD_GIGABYTES * 1e9 / 64)
    counts = {"mem_read": Count(role="mem_read", value=lines, enabled=1, running=1)}
    metric = evaluate(DEFINITIONS["memory_read.controllers"], Measurement(counts=counts, seconds=2.0))
    assert metric.value == pytest.approx(TRIAD_GIGABYTES / 2)


# -- Molka et al. 2017 --------------------------------------------------------------------------------------------

TABLE_2 = (
    ("L1D read", 159.8, 32, 4993),
    ("L1D write", 79.9, 32, 2496),
    ("L2 read", 75.0, 64, 1171),
    ("L2 write", 25.5, 64, 398),
    ("L3 read", 29.9, 64, 467),
    ("local read", 10.4, 64, 162),
    ("local write", 7.7, 64, 120),
    ("remote read", 8.0, 64, 125),
    ("remote write", 5.5, 64, 85),
)
"""Bandwidth in GB/s, bytes of a transfer, million transfers a second. L3 write is below."""

TABLE_3 = (
    ("L3 read", 342.0, 64, 5343),
    ("L3 write", 209.0, 64, 3265),
    ("memory read", 63.1, 64, 985),
    ("memory write", 25.8, 64, 403),
    ("link read", 16.3, 64, 254),
    ("link write", 11.0, 64, 171),
)

PRINTED_TO = 0.05
"""Bandwidths are printed with one decimal, those of L3 with none but rounded alike; transfers are whole millions, cut
or rounded from more exact bandwidths."""


@pytest.mark.parametrize(("entry", "bandwidth", "size", "millions"), TABLE_2 + TABLE_3)
def test_molkas_transfers_follow_from_bandwidths(entry: str, bandwidth: float, size: int, millions: int) -> None:
    least, most = (transfers_per_second(bandwidth + way * PRINTED_TO, size) / 1e6 for way in (-1, 1))
    assert least - 1 <= millions <= most + 1, entry


def test_one_entry_of_molkas_second_table_contradicts_itself() -> None:
    """L3 write: 15.0 GB/s beside 277 million lines a second, which are 17.7 GB/s."""
    assert transfers_per_second(15.0, 64) / 1e6 == pytest.approx(234.4, abs=0.1)
    assert transfers_per_second(17.7, 64) / 1e6 == pytest.approx(277, abs=0.5)


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


TABLE_1_2 = (("L2", 406.28, 115.34, 17.42), ("L3", 203.06, 69.74, 2.94), ("memory", 112.97, 37.33, 0.88))
"""Gigabytes of two threads, and the error of their ratio against 3 : 1 in percent, printed without its sign."""


@pytest.mark.parametrize(("what", "first", "second", "error"), TABLE_1_2)
def test_errors_of_the_imbalance_table(what: str, first: float, second: float, error: float) -> None:
    assert 100 * abs(relative_error(first / second, 3)) == pytest.approx(error, abs=0.006), what


TABLE_1_3 = (
    (2, 328.4, 64.2, 404.2, 102.1),
    (4, 568.3, 42.1, 607.7, 51.9),
    (8, 897.0, 12.1, 985.86, 23.2),
    (16, 1714.2, 7.1, 1777.1, 11.1),
    (32, 2893.4, -9.6, 2595.6, -18.9),
    (64, 5570.8, -13.0, 3512.3, -45.1),
    (128, 7350.7, -42.6, 6124.9, -52.2),
    (256, 8995.3, -64.9, 11471.1, -55.2),
    (512, 18224.3, -64.4, 22608.3, -55.8),
    (1024, 55124.5, -46.2, 45814.3, -55.3),
)
"""Lines a step, lines transferred within a socket and between two, and their errors against 100 steps, in percent."""


@pytest.mark.parametrize(("lines", "within", "within_error", "between", "between_error"), TABLE_1_3)
def test_errors_of_the_false_sharing_table(
    lines: int, within: float, within_error: float, between: float, between_error: float
) -> None:
    assert 100 * relative_error(within, 100 * lines) == pytest.approx(within_error, abs=0.051)
    assert 100 * relative_error(between, 100 * lines) == pytest.approx(between_error, abs=0.051)


def test_imbalance_needs_work() -> None:
    assert imbalance([5, 5, 5]) == 1 and imbalance([9, 0, 0]) == 3
    with pytest.raises(ValueError, match="no thread worked"):
        imbalance([0, 0])
