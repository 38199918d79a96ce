"""C to paste: a loop with the advised prefetches, their distances as constants, and its end peeled off."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from setebench.loops.advice import Advice
from setebench.loops.records import LINE_BYTES, Loop, Stream
from setebench.text import remark

LOCALITY = {"t0": "0, 3", "t1": "0, 2", "t2": "0, 1", "nta": "0, 0", "w": "1, 3"}
"""The second and third argument of `__builtin_prefetch` for each hint, as gcc and clang translate them on x86-64."""

COMMENT_COLUMNS = 118
"""Of the comments in the C to paste, with the indentation: no line is longer than 120."""


def c_code(loop: Loop, advice: Advice) -> str:
    """The loop in C with the prefetches of an advice."""
    return "\n".join(_lines(loop, advice)) + "\n"


def identifier(name: str) -> str:
    """A name as C takes it."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"


def _lines(loop: Loop, advice: Advice) -> Iterator[str]:
    name = identifier(loop.name).upper()
    stages = [(distance, hint, level.upper()) for level, distance, hint in advice.policy.parts]
    yield f"/* {remark(loop.name)}: {advice.strategy}; an iteration is one of its {remark(loop.unit)}."
    for sentence in advice.why:
        yield from textwrap.wrap(remark(sentence), COMMENT_COLUMNS, initial_indent=" * ", subsequent_indent=" *   ")
    yield " */"
    if not stages:
        yield "/* Don't prefetch: write the loop as it is. */"
        return
    for distance, _, stage in stages:
        yield f"enum {{ {name}_{stage}_DISTANCE = {distance} }};"
    yield ""
    yield "size_t i = 0;"
    ordered = sorted(stages, reverse=True)
    for number in range(len(ordered)):
        yield from _part(loop, ordered[number:], name)
    yield "for (; i < n; i++) { /* the end: nothing further ahead to prefetch */"
    yield "    /* the work of iteration i */"
    yield "}"


def _part(loop: Loop, stages: list[tuple[int, str, str]], name: str) -> Iterator[str]:
    """The iterations in which all of these stages, furthest first, still have something ahead to prefetch."""
    yield f"for (; i + {name}_{stages[0][2]}_DISTANCE < n; i++) {{"
    for stage in stages:
        yield from _prefetches(loop, stage, name)
    yield "    /* the work of iteration i */"
    yield "}"


def _prefetches(loop: Loop, stage: tuple[int, str, str], name: str) -> Iterator[str]:
    _, hint, level = stage
    ahead = f"i + {name}_{level}_DISTANCE"
    for stream in loop.streams:
        if stream.prefetched:
            for address in _addresses(stream, ahead):
                yield f"    __builtin_prefetch({address}, {LOCALITY[hint]}); /* {hint} */"


def _addresses(stream: Stream, ahead: str) -> Iterator[str]:
    """What to prefetch for a stream, `ahead` being the iteration that will need it."""
    own = identifier(stream.name)
    if stream.pattern == "sequential":
        step = _number(stream.bytes_per_iteration)
        for line in range(max(1, -(-int(stream.bytes_per_iteration) // LINE_BYTES))):
            more = f" + {line * LINE_BYTES}" if line else ""
            yield f"(const char *){own} + ({ahead}) * {step}{more}"
    elif stream.pattern == "strided":
        for access in range(max(1, round(stream.accesses_per_iteration))):
            step = _number(stream.stride_bytes * stream.accesses_per_iteration)
            more = f" + {access * stream.stride_bytes}" if access else ""
            yield f"(const char *){own} + (ptrdiff_t)({ahead}) * {step}{more}"
    elif stream.pattern == "chase":
        yield f"{identifier(stream.via) if stream.via else own}[{ahead}]"
    elif stream.pattern == "lookup":
        yield f"{own}_of({identifier(stream.via) if stream.via else 'key'}[{ahead}])"
    else:
        count = max(1, round(stream.accesses_per_iteration))
        index = identifier(stream.via) if stream.via else "index"
        for access in range(count):
            at = f"({ahead}) * {count} + {access}" if count > 1 else ahead
            yield f"&{own}[{index}[{at}]]"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
