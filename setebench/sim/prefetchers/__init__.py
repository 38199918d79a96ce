"""Hardware prefetchers.

Adding a kind takes three steps: (1) a `spec.Prefetcher` subclass with its fields, their ranges and its source, in the
union of its file; (2) a module here with a function `train_...(c, s, p, q)`; (3) its row in `TRAIN` below.

`train_...` is shown one access, which the words `S_SEEN_...` describe. Its prefetcher's configuration begins at `p` of
`c` (`layout` has a word for each field, as `STREAM_DEGREE`), its state, `layout.STATE_WORDS` zeros at first, at `q` of
`s`. It hands lines out with `common.hand_out`. Lines are virtual at level 1 and physical at level 2; the caller filters
lines that are there already, finds miss entries and does the fetching.
"""

from __future__ import annotations

from collections.abc import Callable

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, inlined
from setebench.sim.layout import KINDS, P_KIND
from setebench.sim.prefetchers import lead, next_line, region, streamer, stride
from setebench.sim.prefetchers.published import best_offset, ip_classes, reference_prediction, stream_buffer
from setebench.sim.prefetchers.streamer import silence as silence

Train = Callable[[Ints, Ints, int, int], None]
TRAIN: dict[type[spec.Prefetcher], Train] = {
    spec.Streamer: streamer.train_streamer,
    spec.Stride: stride.train_stride,
    spec.NextLine: next_line.train_next_line,
    spec.LinePair: next_line.train_pair,
    spec.UpDown: next_line.train_up_down,
    spec.Region: region.train_region,
    spec.StreamBuffer: stream_buffer.train_stream_buffer,
    spec.BestOffset: best_offset.train_best_offset,
    spec.ReferencePrediction: reference_prediction.train_reference_prediction,
    spec.InstructionClasses: ip_classes.train_ip_classes,
    spec.Lead: lead.train_lead,
}


def _chain(kinds: tuple[type[spec.Prefetcher], ...]) -> Train:
    """`train` of these kinds: Numba knows no table of functions, so the choice is a chain of comparisons."""
    number, own = KINDS.index(kinds[0]), TRAIN[kinds[0]]
    if len(kinds) == 1:
        return own
    rest = _chain(kinds[1:])

    @inlined
    def train_one(c: Ints, s: Ints, p: int, q: int) -> None:
        if c[p + P_KIND] == number:
            own(c, s, p, q)
        else:
            rest(c, s, p, q)

    return train_one


train = _chain((*TRAIN,))
"""Show one access to the prefetcher with configuration at `p` and state at `q`."""
