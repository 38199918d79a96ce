"""C to paste: a loop with the advised prefetches, their distances as constants, and its end peeled off."""

from __future__ import annotations

import math
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


def _identifier(name: str) -> str:
    """A name as C takes it."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"


def _lines(loop: Loop, advice: Advice) -> Iterator[str]:
    yield f"/* {remark(loop.name)}: {advice.strategy}; an iteration is one of its {remark(loop.unit)}."
    for sentence in advice.why:
        yield from textwrap.wrap(remark(sentence), COMMENT_COLUMNS, initial_indent=" * ", subsequent_indent=" *   ")
    yield " */"
    stages = sorted(
        ((distance, f"{_identifier(loop.name).upper()}_{level.upper()}_DISTANCE", hint))
        for level, distance, hint in advice.policy.parts
    )[::-1]
    if not stages:
        yield "/* Don't prefetch: write the loop as it is. */"
        return
    for distance, constant, _ in stages:
        yield f"enum {{ {constant} = {distance} }};"
    yield from ("", "size_t i = 0;")
    for number in range(len(stages)):  # parts in which fewer and fewer stages have something ahead to prefetch
        yield f"for (; i + {stages[number][1]} < n; i++) {{"
        for _, constant, hint in stages[number:]:
            for stream in loop.prefetched:
                for address in _addresses(stream, f"i + {constant}"):
                    yield f"    __builtin_prefetch({address}, {LOCALITY[hint]}); /* {hint} */"
        yield from ("    /* the work of iteration i */", "}")
    yield "for (; i < n; i++) { /* the end: nothing further ahead to prefetch */"
    yield from ("    /* the work of iteration i */", "}")


def _addresses(stream: Stream, ahead: str) -> Iterator[str]:
    """What to prefetch for a stream, `ahead` being the iteration that will need it."""
    own, via = _identifier(stream.name), _identifier(stream.via)
    if stream.regular:
        each = int(stream.step_bytes) if stream.step_bytes == int(stream.step_bytes) else stream.step_bytes
        for line in range(math.ceil(stream.lines_per_iteration) or 1):
            more = f" + {line * LINE_BYTES}" if line else ""
            yield f"(const char *){own} + (ptrdiff_t)({ahead}) * {each}{more}"
    elif stream.pattern == "chase":
        yield f"{via if stream.via else own}[{ahead}]"
    elif stream.pattern == "lookup":
        yield f"{own}_of({via if stream.via else 'key'}[{ahead}])"
    else:
        yield f"&{own}[{via if stream.via else 'index'}[{ahead}]]"
