"""Which bits of an instruction's address a table goes by."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from setebench.scenarios.prefetcher_map.tables import BITS, bits_that_matter

SAME, FAR_BIT = 0x152B, BITS.far


@given(mask=st.integers(0, (1 << FAR_BIT) - 1))
def test_any_set_of_bits_below_the_far_one_is_found(mask: int) -> None:
    found = bits_that_matter(SAME, lambda address: not (address ^ SAME) & mask)
    assert found == tuple(bit for bit in range(FAR_BIT) if mask >> bit & 1)


@given(mask=st.integers(0, (1 << FAR_BIT) - 1))
def test_nothing_is_reported_where_the_far_bit_matters_too(mask: int) -> None:
    assert bits_that_matter(SAME, lambda address: not (address ^ SAME) & (mask | 1 << FAR_BIT)) is None


@given(unclear=st.integers(0, FAR_BIT))
def test_one_unclear_bit_leaves_all_open(unclear: int) -> None:
    assert bits_that_matter(SAME, lambda address: None if (address ^ SAME) >> unclear & 1 else True) is None


def test_bits_of_which_only_two_together_matter_leave_it_open() -> None:
    """As where a table goes by sums of bits; asked one by one, none of the upper ones would matter."""
    both = 0b11 << 20
    assert bits_that_matter(SAME, lambda address: (address ^ SAME) & both != both) is None
