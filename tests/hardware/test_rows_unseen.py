"""Nothing that runs a probe brings lines of repetitions to come: what was flushed is found where it was left."""

from __future__ import annotations

import numpy as np

from setebench.native.machine import NativeMachine
from setebench.probe import Base, Probe


def test_addresses_of_later_repetitions_are_followed_by_no_prefetcher(native: NativeMachine) -> None:
    """A core may prefetch what an array of pointers that is read at a stride points to. Lines that were flushed in a
    run before are loaded here with others of their pages: nearly none may answer as fast as those just loaded."""
    rng, line = np.random.default_rng(), Base("line")
    region = native.allocate(16 << 20, 4096)
    lines = region.address + rng.permutation(region.pages)[:2000] * 4096 + rng.integers(8, 64, 2000) * region.line_size
    again = Probe().load(line).fence().start().load(line).stop()
    once = Probe().flush(line + 0).fence().start().load(line).stop()
    near, far = (np.median(native.run(probe, {line: lines}, warmup=50)) for probe in (again, once))
    native.run(Probe().flush(line), {line: lines})
    ticks = native.run(Probe().start().load(line).stop(), {line: lines})
    early = float((ticks < (near + far) / 2).mean())
    assert early < 0.05, f"{early:.0%} of flushed lines were back ({near} and {far} ticks)"
