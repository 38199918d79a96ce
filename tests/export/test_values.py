from __future__ import annotations

from setebench.export.formats.blas import block_sizes


def test_the_model_gives_the_blocks_of_its_paper() -> None:
    """Low et al. 2016, Sandy Bridge: 32 KiB and 256 KiB of 8 ways, micro-kernel 8 x 4 of doubles: k_c 256, m_c 96."""
    assert block_sizes((8, 4, 8), (8, 4096), (8, 32768)) == [256, 96]
