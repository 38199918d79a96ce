"""Physical frames in random order, of which few or nearly all are in use."""

from __future__ import annotations

import numpy as np

from setebench.sim.frames import Frames


def frames(count: int = 1000) -> Frames:
    return Frames(512, count, 2, np.random.default_rng(1))


def test_frames_are_handed_out_once_each_in_random_order() -> None:
    offered = frames()
    taken = np.concatenate([offered.take(count) for count in (1, 400, 300, 299)])
    assert sorted(taken.tolist()) == list(range(512, 512 + 2000, 2))
    assert abs(np.corrcoef(taken, np.arange(1000))[0, 1]) < 0.2
