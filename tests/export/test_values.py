from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from setebench.export.formats.blas import block_sizes


def test_the_model_gives_the_blocks_of_its_paper() -> None:
    """Low et al. 2016, Sandy Bridge: 32 KiB and 256 KiB of 8 ways, micro-kernel 8 x 4 of doubles: k_c 256, m_c 96."""
    assert block_sizes((8, 4, 8), (8, 4096), (8, 32768)) == [256, 96]


@given(st.sampled_from([(6, 8, 8), (6, 16, 4), (3, 4, 16)]), st.integers(3, 24), st.integers(3, 24), st.integers(6, 11))
def test_blocks_fit_the_ways_that_are_left_to_them(
    kernel: tuple[int, int, int], ways: int, others: int, shift: int
) -> None:
    first, second = (ways, 64 << 6), (others, 64 << shift)
    (rows, columns, element), (depth, high, wide) = kernel, block_sizes(kernel, first, second, second)
    assert (rows + columns) * depth * element <= (ways - 1) * first[1]
    assert high % rows == 0 and wide % columns == 0
    assert high * depth * element <= (others - 1) * second[1]
