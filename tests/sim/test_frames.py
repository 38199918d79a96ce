"""Physical frames in random order, of which few or nearly all are in use."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.errors import SetebenchError
from setebench.sim.frames import Frames


def frames(count: int = 1000) -> Frames:
    return Frames(512, count, 2, np.random.default_rng(1))


def test_frames_are_handed_out_once_each_in_random_order() -> None:
    offered = frames()
    taken = np.concatenate([offered.take(count) for count in (1, 400, 300, 299)])
    assert sorted(taken.tolist()) == list(range(512, 512 + 2000, 2))
    assert abs(np.corrcoef(taken, np.arange(1000))[0, 1]) < 0.2


def test_frames_given_back_are_handed_out_again() -> None:
    offered = frames()
    first = offered.take(1000)
    offered.give_back(first[:10])
    assert set(offered.take(10).tolist()) == set(first[:10].tolist())


def test_more_frames_than_are_left_is_an_error() -> None:
    offered = frames()
    offered.take(999)
    with pytest.raises(SetebenchError, match="2 frames were asked for, 1 are left"):
        offered.take(2)


def test_a_seed_gives_the_same_frames() -> None:
    assert frames().take(50).tolist() == frames().take(50).tolist()
