"""Hardware prefetchers.

Adding a kind takes three steps: (1) a `spec.Prefetcher` subclass with its fields, their ranges and its source, in the
union of its file; (2) a module here with a Numba function `train_...(c, s, p, q, n)`; (3) a row in `KINDS` below.

`train_...` is shown one access, which the words `S_SEEN_...` describe. Its prefetcher's configuration begins at `p` of
`c` (`layout` has a word for each field, as `STREAM_DEGREE`), its state at `q` of `s`, zeros at first. It hands lines
out with `common.hand_out`; `n` were handed out before, and it returns how many have been now. Lines are virtual at
level 1 and physical at level 2; the caller filters lines that are there already, finds miss entries and does the
fetching.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.layout import P_KIND
from setebench.sim.prefetchers import next_line, region, streamer, stride, table
from setebench.sim.prefetchers.published import (
    best_offset,
    feedback_stream,
    ip_classes,
    reference_prediction,
    stream_buffer,
)
from setebench.sim.prefetchers.streamer import silence_streamer

Train = Callable[[Ints, Ints, int, int, int], int]


@dataclass(frozen=True)
class Kind:
    """A kind of prefetcher: its table of the machine file, what it does with an access, and the words of state that it
    needs."""

    table: type[spec.Prefetcher]
    train: Train
    words: Callable[[Any], int]


KINDS = (
    Kind(spec.Streamer, streamer.train_streamer, lambda kind: kind.streams * streamer.R_WORDS),
    Kind(spec.Stride, stride.train_stride, lambda kind: kind.entries * stride.R_WORDS),
    Kind(spec.NextLine, next_line.train_next_line, lambda kind: kind.streams * next_line.R_WORDS),
    Kind(spec.LinePair, next_line.train_pair, lambda _: 0),
    Kind(
        spec.Region,
        region.train_region,
        lambda kind: kind.active_regions * region.A_WORDS + kind.entries * region.F_WORDS,
    ),
    Kind(
        spec.StreamBuffer,
        stream_buffer.train_stream_buffer,
        lambda kind: kind.buffers * stream_buffer.R_WORDS + stream_buffer.RECENT * stream_buffer.RECENT_WORDS,
    ),
    Kind(spec.BestOffset, best_offset.train_best_offset, lambda kind: best_offset.R_RECENT + kind.recent_entries),
    Kind(
        spec.ReferencePrediction,
        reference_prediction.train_reference_prediction,
        lambda kind: kind.entries * reference_prediction.R_WORDS,
    ),
    Kind(
        spec.FeedbackStream,
        feedback_stream.train_feedback_stream,
        lambda kind: feedback_stream.R_STREAMS + kind.streams * feedback_stream.M_WORDS,
    ),
    Kind(spec.InstructionClasses, ip_classes.train_ip_classes, ip_classes.state_words),
    Kind(spec.LineTable, table.train_table, lambda kind: kind.pages * table.R_WORDS),
)
NUMBERS = {kind.table: number for number, kind in enumerate(KINDS)}
STREAM = NUMBERS[spec.Streamer]


def simulated(kind: spec.AnyPrefetcher) -> spec.AnyPrefetcher:
    """The prefetcher that does what one of this kind does: a line up or down on a miss is a table of one line."""
    if not isinstance(kind, spec.UpDown):
        return kind
    common: dict[str, Any] = {name: getattr(kind, name) for name in spec.Prefetcher.__struct_fields__}
    return spec.LineTable(**common, trigger=1, lines=((1,),), pages=kind.streams, only_misses=True)


def _among(number: int, rest: Train | None) -> Train:
    """`train` of the kinds from `number` on, where `rest` is that of the kinds after it: Numba knows no table of
    functions, so the choice is a chain of comparisons."""
    own = KINDS[number].train
    if rest is None:
        return own

    @inlined
    def train_one(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
        if c[p + P_KIND] == number:
            return own(c, s, p, q, n)
        return rest(c, s, p, q, n)

    return train_one


def _chain() -> Train:
    train = _among(len(KINDS) - 1, None)
    for number in reversed(range(len(KINDS) - 1)):
        train = _among(number, train)
    return train


train = _chain()
"""Show one access to the prefetcher with configuration at `p` and state at `q`."""


@compiled
def silence(c: Ints, s: Ints, p: int, q: int) -> None:
    """Show a software prefetch to a prefetcher that it may put to silence."""
    if c[p + P_KIND] == STREAM:
        silence_streamer(c, s, p, q)
