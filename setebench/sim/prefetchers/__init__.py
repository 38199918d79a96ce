"""Hardware prefetchers.

Adding a kind takes three steps: (1) a `spec.Prefetcher` subclass with its fields, their ranges and its source, in the
union of its file; (2) a module here with `..._settings(kind, page_lines) -> (configuration words,
words of state)` and a Numba function `train_...(c, s, p, q, n)`; (3) a row in `KINDS` below.

`train_...` is shown one access, which the words `S_SEEN_...` describe. Its prefetcher's configuration begins at `p` of
`c` (own words from `P_OWN` on), its state at `q` of `s`, zeros at first. It hands out lines with `common.hand_out`;
`n` were handed out before, and it returns how many have been now. Lines are virtual at level 1 and physical at level 2;
the caller filters lines that are there already, finds miss entries and does the fetching.

Where SMT threads are not to share what a prefetcher learns, a kind of `BY_KEY` has the thread in its records' keys
(`common.page_key`), so that threads share its capacity; of the other kinds every thread gets a state of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.layout import P_KIND
from setebench.sim.prefetchers.next_line import next_line_settings, pair_settings, train_next_line, train_pair
from setebench.sim.prefetchers.published.best_offset import best_offset_settings, train_best_offset
from setebench.sim.prefetchers.published.feedback_stream import feedback_stream_settings, train_feedback_stream
from setebench.sim.prefetchers.published.ip_classes import ip_classes_settings, train_ip_classes
from setebench.sim.prefetchers.published.reference_prediction import (
    reference_prediction_settings,
    train_reference_prediction,
)
from setebench.sim.prefetchers.published.stream_buffer import stream_buffer_settings, train_stream_buffer
from setebench.sim.prefetchers.region import region_settings, spatial_settings, train_region
from setebench.sim.prefetchers.streamer import silence_streamer, streamer_settings, train_streamer
from setebench.sim.prefetchers.stride import stride_settings, train_stride
from setebench.sim.prefetchers.table import table_settings, train_table, up_down_settings

Train = Callable[[Ints, Ints, int, int, int], int]


@dataclass(frozen=True)
class Kind:
    """A kind of prefetcher: its table of the machine file, its configuration, and what it does with an access."""

    table: type[spec.Prefetcher]
    settings: Callable[[Any, int], tuple[list[int], int]]
    train: Train


KINDS = (
    Kind(spec.Streamer, streamer_settings, train_streamer),
    Kind(spec.Stride, stride_settings, train_stride),
    Kind(spec.NextLine, next_line_settings, train_next_line),
    Kind(spec.LinePair, pair_settings, train_pair),
    Kind(spec.Region, region_settings, train_region),
    Kind(spec.UpDown, up_down_settings, train_table),
    Kind(spec.StreamBuffer, stream_buffer_settings, train_stream_buffer),
    Kind(spec.BestOffset, best_offset_settings, train_best_offset),
    Kind(spec.SpatialPattern, spatial_settings, train_region),
    Kind(spec.ReferencePrediction, reference_prediction_settings, train_reference_prediction),
    Kind(spec.FeedbackStream, feedback_stream_settings, train_feedback_stream),
    Kind(spec.InstructionClasses, ip_classes_settings, train_ip_classes),
    Kind(spec.LineTable, table_settings, train_table),
)
NUMBERS = {kind.table: number for number, kind in enumerate(KINDS)}
STREAM = NUMBERS[spec.Streamer]

BY_KEY = (spec.NextLine, spec.LinePair, spec.Streamer, spec.Stride, spec.Region, spec.UpDown, spec.LineTable)


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
