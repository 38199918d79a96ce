from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_results import plain_server, result, unresolved

from setebench.export.blocks import Cache, Kernel, block_sizes
from setebench.export.source import Source
from setebench.export.values import Open, Origin, Value, derived


def test_a_derived_interval_spans_the_rule_at_all_corners() -> None:
    a = Value(10.0, "cycles", Origin.MEASURED, "a", 9.0, 12.0, ("a",))
    b = Value(4.0, "cycles", Origin.MEASURED, "b", 3.0, 5.0, ("b",))
    found = derived(lambda x, y: x - y, "cycles", (a, b), "difference", float)
    assert isinstance(found, Value)
    assert (found.value, found.low, found.high, found.parameters) == (6.0, 4.0, 9.0, ("a", "b"))


@pytest.mark.parametrize("weak", [Origin.AT_LEAST, Origin.ASSUMED])
def test_nothing_derived_is_surer_than_its_weakest_input(weak: Origin) -> None:
    sure, unsure = Value(1, "", Origin.MEASURED, ""), Value(2, "", weak, "")
    for inputs in ((sure, unsure), (unsure, sure)):
        found = derived(lambda x, y: x + y, "", inputs, "")
        assert isinstance(found, Value) and found.origin == weak


@pytest.mark.parametrize("finding", ["prefetcher.l2.stride.present", "prefetcher.l1.stride.max_stride"])
def test_strides_are_open_unless_every_kind_is_settled(finding: str) -> None:
    document = plain_server()
    known = Source(document).least_stride()
    assert isinstance(known, Value) and known.value == 2049
    less = [unresolved(finding) if each.parameter == finding else each for each in document.findings]
    assert isinstance(Source(result(*less)).least_stride(), Open)


# -- the analytical model -----------------------------------------------------------------------------------------


def test_the_model_gives_the_blocks_of_its_paper() -> None:
    """Low et al. 2016, Sandy Bridge: 32 KiB and 256 KiB of 8 ways, micro-kernel 8 x 4 of doubles: k_c 256, m_c 96."""
    kernel, first, second = Kernel(8, 4, 8), Cache(8, 4096), Cache(8, 32768)
    assert block_sizes(kernel, first, second) == [256, 96]


@given(
    st.sampled_from([Kernel(6, 8, 8), Kernel(6, 16, 4), Kernel(3, 4, 16), Kernel(8, 4, 8)]),
    st.integers(3, 24),
    st.integers(3, 24),
    st.integers(6, 11),
)
def test_blocks_fit_the_ways_that_are_left_to_them(kernel: Kernel, ways: int, others: int, shift: int) -> None:
    first, second = Cache(ways, 64 << 6), Cache(others, 64 << shift)
    depth, rows, columns = block_sizes(kernel, first, second, second)
    panels = (kernel.rows + kernel.columns) * depth * kernel.element_bytes
    assert panels <= (ways - 1) * first.way_bytes
    assert rows % kernel.rows == 0
    assert rows * depth * kernel.element_bytes <= (others - 1) * second.way_bytes
    assert columns % kernel.columns == 0
