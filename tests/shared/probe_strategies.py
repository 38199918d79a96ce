"""Random probes, built as anybody would build them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from setebench.errors import ProbeError
from setebench.probe import ACCESS_SIZES, BRACKETS, FENCES, FLUSHES, HINTS, WORKS, Base, Kind, Probe

NAMES = ("a", "b", "line", "x.1", "_", "two words", 'quo"te', "#;{}", "\n", "é", "start", "size", "9")


@dataclass(frozen=True)
class Choices:
    """What random probes are made of: `verbs` anywhere, `extra` outside of repeats only.

    `by_kind` keeps an instruction address to accesses of one kind and size, and places it on a cache line of its own,
    as stitching demands."""

    sizes: tuple[int, ...] = ACCESS_SIZES
    hints: tuple[str, ...] = HINTS
    flushes: tuple[str, ...] = FLUSHES
    fences: tuple[str, ...] = FENCES
    brackets: tuple[str | None, ...] = (None, *BRACKETS)
    bases: tuple[str, ...] = NAMES
    offsets: tuple[int, int] = (-(2**31), 2**31 - 1)
    advances: tuple[int, int] = (-(2**31), 2**31 - 1)
    verbs: tuple[str, ...] = ("load", "store", "prefetch", "flush", "chase", "fence", "wait", "nop", "multiply", "add")
    by_kind: bool = False
    most: int = 12
    extra: tuple[str, ...] = ("transfer", "barrier", "start", "stop")


@st.composite
def probes(draw: st.DrawFn, choices: Choices = Choices()) -> Probe:
    """Any sequence of operations; its intervals need not make sense unless `extra` holds no start and stop."""
    probe = Probe()
    for _ in range(draw(st.integers(0, choices.most))):
        verb = draw(st.sampled_from((*choices.verbs, *choices.extra, "repeat")))
        probe = _repeat(draw, probe, choices) if verb == "repeat" else _grown(draw, probe, verb, choices)
    return probe


@st.composite
def timed_probes(draw: st.DrawFn, choices: Choices) -> Probe:
    """Probes that a machine can run: every interval is started and stopped once, in order."""
    probe = draw(probes(choices))
    for interval in range(draw(st.integers(0, 3))):
        bracket, dither = draw(st.sampled_from(choices.brackets)), draw(st.booleans())
        probe = probe.start(interval, bracket=bracket, dither=dither) + draw(probes(choices))
        probe = probe.stop(interval, bracket=bracket)
    return probe


def _repeat(draw: st.DrawFn, probe: Probe, choices: Choices) -> Probe:
    body = Probe()
    for _ in range(draw(st.integers(1, 4))):
        body = _grown(draw, body, draw(st.sampled_from(choices.verbs)), choices)
    if not len(body):
        return probe
    try:
        return probe.repeat(draw(st.integers(1, 5)), body, advance=draw(st.integers(*choices.advances)))
    except ProbeError:  # an instruction address of the body lies elsewhere already
        return probe


def _grown(draw: st.DrawFn, probe: Probe, verb: str, choices: Choices) -> Probe:
    arguments = _ARGUMENTS.get(verb, _counted)(draw, choices)
    if verb in ("load", "store", "prefetch", "flush", "chase"):
        loads = int(np.isin(probe.rows[:, 0], (Kind.LOAD, Kind.CHASE)).sum())
        if loads and draw(st.booleans()):
            arguments["after"] = draw(st.integers(-loads, loads - 1))
    if verb in ("load", "store", "prefetch") and draw(st.booleans()):
        arguments |= _instruction_address(draw, verb, arguments, choices)
    where = arguments.pop("where", None)
    try:
        return getattr(probe, verb)(*([] if where is None else [where]), **arguments)
    except ProbeError:  # an instruction address that was placed elsewhere before
        return probe


def _instruction_address(draw: st.DrawFn, verb: str, arguments: dict, choices: Choices) -> dict:
    if not choices.by_kind:
        label = draw(st.one_of(st.none(), st.sampled_from(("A", "B", "@0x5c0", *NAMES))))
        bits = draw(st.one_of(st.none() if label else st.just(7), st.integers(0, 2**26 - 1), st.just(0x5C0)))
        return {"ip": label, "ip_bits": bits}
    label = f"{verb} {arguments.get('size', arguments.get('hint'))} {draw(st.integers(0, 1))}"
    return {"ip": label, "ip_bits": draw(st.one_of(st.none(), st.just(_own_line(label))))}


def _own_line(label: str) -> int:
    return sum(ord(character) * 131**place for place, character in enumerate(label)) % 2**20 * 64


def _where(draw: st.DrawFn, choices: Choices) -> dict:
    return {"where": Base(draw(st.sampled_from(choices.bases))) + draw(st.integers(*choices.offsets))}


def _sized(draw: st.DrawFn, choices: Choices) -> dict:
    return {**_where(draw, choices), "size": draw(st.sampled_from(choices.sizes))}


def _counted(draw: st.DrawFn, choices: Choices) -> dict:
    return {"where": draw(st.integers(1, 9))}


def _chased(draw: st.DrawFn, choices: Choices) -> dict:
    arguments = {**_sized(draw, choices), "steps": draw(st.integers(1, 9))}
    return arguments | ({"work": draw(st.sampled_from(WORKS))} if arguments["size"] == 8 else {})


_ARGUMENTS = {
    "load": _sized,
    "store": _sized,
    "chase": _chased,
    "prefetch": lambda draw, choices: {**_where(draw, choices), "hint": draw(st.sampled_from(choices.hints))},
    "flush": lambda draw, choices: {**_where(draw, choices), "how": draw(st.sampled_from(choices.flushes))},
    "fence": lambda draw, choices: {"kind": draw(st.sampled_from(choices.fences))},
    "multiply": lambda draw, choices: {"count": draw(st.integers(1, 9)), "chained": draw(st.booleans())},
    "barrier": lambda draw, choices: {},
    "start": lambda draw, choices: {
        "interval": draw(st.integers(0, 15)),
        "bracket": draw(st.sampled_from(choices.brackets)),
        "dither": draw(st.booleans()),
    },
    "stop": lambda draw, choices: {
        "interval": draw(st.integers(0, 15)),
        "bracket": draw(st.sampled_from(choices.brackets)),
    },
}
