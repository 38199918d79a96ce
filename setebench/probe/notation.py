"""The pattern notation: probes as text that people write and read.

    flush a; fence m; start; load a+64; stop

One statement per operation, separated by `;` or line ends; `#` starts a comment. docs/notation.md describes it in full.
`render` writes what `parse` reads: `parse(render(probe)) == probe` for every probe. Both go by `FORMS`: a statement is
a call of the `Probe` method of the same name, whose arguments are in the order of its usage, and which checks them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from setebench.errors import ProbeError
from setebench.probe import BRACKETS, Base, Kind, Operand, Operation, Probe
from setebench.probe.table import WORD

UNITS = {"": 1, "l": 64, "p": 4096}
"""Suffixes of an offset or advance: lines and pages."""

_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(rf'#[^\n]*|(?P<mark>[;\n{{}}])|(?P<word>(?:{_QUOTED}|[^\s;{{}}#"])+|")')
_NUMBER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})([lp]?)", re.ASCII)
_OPTION = re.compile(r"(\w+)=(.*)", re.ASCII | re.DOTALL)
_OPERAND = re.compile(rf"([A-Za-z_][\w.@]*|{_QUOTED})((?:[-+][\da-zA-Z]+)*)", re.ASCII)
PLAIN_BASE = re.compile(r"[A-Za-z_][\w.@]*", re.ASCII)
PLAIN_NAME = re.compile(r"[\w.@]+", re.ASCII)
"""Names that stand without quotes: of bases, and of instruction addresses."""

_PLACE = "[ip=NAME] [ip_bits=NUMBER] [after=NUMBER]"
_SIZE, _BRACKET = "[size=8|16|32|64]", f"[bracket={'|'.join(BRACKETS)}]"
FORMS = {
    "load": f"BASE[+OFFSET] {_SIZE} {_PLACE}",
    "store": f"BASE[+OFFSET] {_SIZE} {_PLACE}",
    "prefetch": f"BASE[+OFFSET] [hint=t0|t1|t2|nta|w] {_PLACE}",
    "flush": "BASE[+OFFSET] [how=clflush|clflushopt|clwb] [after=NUMBER]",
    "chase": f"BASE[+OFFSET] STEPS {_SIZE} [work=free|chained] [after=NUMBER]",
    "stream": "BASE[+OFFSET] KERNEL ARRAY_BYTES [width=8|16|32|64] [rolled=yes|no]",
    "fence": "[m|l|s|serialize]",
    "wait": "CYCLES",
    "nop": "COUNT",
    "multiply": "COUNT [chained|free]",
    "add": "COUNT",
    "transfer": "COUNT",
    "barrier": "",
    "start": f"[INTERVAL] {_BRACKET} [dither=yes|no]",
    "stop": f"[INTERVAL] {_BRACKET}",
    "repeat": "COUNT [advance=OFFSET] { STATEMENTS }",
}
"""How every operation is written: its arguments in their order, optional ones in brackets, then options."""

_NUMBERS = ("STEPS", "ARRAY_BYTES", "CYCLES", "COUNT", "INTERVAL", "NUMBER", "OFFSET", "8|16|32|64")
_WORDS = {"yes|no": {"yes": True, "no": False}, "chained|free": {"chained": True, "free": False}}

USUAL = {
    "size": WORD,
    "width": WORD,
    "hint": "t0",
    "how": "clflush",
    "chained|free": "chained",
    "dither": "yes",
    "rolled": "no",
}
"""Values that are left out when a probe is written."""


def parse(text: str) -> Probe:
    """The probe that `text` describes.

    Raises `ProbeError`: one line with the statement's number, its place, and what is allowed there."""
    return _sequence(_split(text), nested=False)


def render(probe: Probe) -> str:
    """The probe as one line of statements."""
    text = ""
    for part in statements(probe):
        text += (" " if part == "}" or text.endswith("{") else "; " if text else "") + part
    return text


def statements(probe: Probe) -> list[str]:
    """One text per row of the probe; a repeat's ends with `{`, and its end is `}`."""
    loads: dict[int, int] = {}
    texts = []
    for row, operation in enumerate(probe.operations):
        # counted back from the latest load, as a repeated body knows of its own loads only
        back = None if operation.after is None else loads[operation.after] - len(loads)
        texts.append(" ".join(_words(operation, back)))
        if operation.kind in (Kind.LOAD, Kind.CHASE):
            loads[row] = len(loads)
    return texts


# -- writing ----------------------------------------------------------------------------------------------------------


def _words(operation: Operation, back: int | None) -> Iterator[str]:
    """The words of a statement, in the order of its usage. `back`: see `after` in docs/notation.md."""
    if operation.kind == Kind.END:
        yield "}"
        return
    ip, operand, verb = operation.ip, operation.operand, operation.kind.name.lower()
    bits = None if ip is None or ip.bits is None else f"{ip.bits:#x}"
    values = {
        "BASE[+OFFSET": operand
        and _named(operand.base.name, PLAIN_BASE) + (f"{operand.offset:+d}" * bool(operand.offset)),
        **dict.fromkeys(("STEPS", "ARRAY_BYTES", "CYCLES", "COUNT"), operation.count),
        **dict.fromkeys(("KERNEL", "m|l|s|serialize", "chained|free"), operation.variant),
        **dict.fromkeys(("hint", "how", "work", "bracket"), operation.variant),
        **dict.fromkeys(("size", "width"), operation.size),
        "ip": None if ip is None or ip.label == f"@{bits}" else _named(ip.label, PLAIN_NAME),
        **{"ip_bits": bits, "after": back, "INTERVAL": operation.interval, "advance": operation.advance},
        **{"dither": "yes" if operation.dither else "no", "rolled": "yes" if operation.rolled else "no"},
    }
    yield verb
    for word in FORMS[verb].partition("{")[0].split():
        name, option, _ = word.strip("[]").partition("=")
        if (value := values[name]) and value != USUAL.get(name):
            yield f"{name}={value}" if option else str(value)
    if operation.kind == Kind.REPEAT:
        yield "{"


def _named(name: str, plain: re.Pattern[str]) -> str:
    return name if plain.fullmatch(name) else json.dumps(name)


# -- reading ----------------------------------------------------------------------------------------------------------


def _split(text: str) -> Iterator[tuple[int, list[str], str]]:
    """Of each statement its number, its words, and the mark that ends it; also of empty ones, without words."""
    number, words = 0, list[str]()
    for match in _TOKEN.finditer(text + "\n"):
        if match["mark"]:
            number += bool(words)
            yield number, words, match["mark"]
            words = []
        elif match["word"]:
            words.append(match["word"])


def _sequence(statements: Iterator[tuple[int, list[str], str]], nested: bool) -> Probe:
    """The probe of all statements to the end, or to the mark that ends a repeated body."""
    probe = Probe()
    for number, words, mark in statements:
        with _located(number, words):
            if words:
                verb, given, options = _call(words)
                if verb == "repeat" and nested:
                    raise ProbeError("a repeated body can't hold another repeat")
                if (verb == "repeat") != (mark == "{"):
                    raise ProbeError("a { belongs behind repeat, its count and its advance")
                given += [_sequence(statements, nested=True)] if verb == "repeat" else []
                probe = getattr(probe, verb)(*given, **options)
            if mark == "}" and not nested:
                raise ProbeError("this } closes nothing")
        if mark == "}":
            return probe
    if nested:
        raise ProbeError("its { is never closed")
    return probe


@contextmanager
def _located(number: int, words: list[str]) -> Iterator[None]:
    """Say of an error within in which statement it was, and what is allowed there."""
    try:
        yield
    except ProbeError as error:
        problem, verb = " ".join(str(error).split()), words[0] if words else ""  # a quoted name may hold line ends
        if problem.startswith("statement "):
            raise
        usage = f"{verb} {FORMS[verb]}".strip() if verb in FORMS else ", ".join(FORMS)
        raise ProbeError(f"statement {number}: {problem}; allowed: {usage}") from error


def _call(words: list[str]) -> tuple[str, list[Any], dict[str, Any]]:
    """The operation, arguments and options of a statement, as its usage has them."""
    verb, *words = words
    if verb not in FORMS:
        raise ProbeError(f"unknown operation {_shown(verb)}")
    usage = FORMS[verb].partition(" {")[0].split()
    kinds = dict(word.strip("[]").split("=") for word in usage if "=" in word)
    wanted = [word for word in usage if "=" not in word]
    plain = [word for word in words if not _OPTION.fullmatch(word)]
    if len(plain) > len(wanted):
        raise ProbeError(f"nothing known by {_shown(plain[len(wanted)])} here")
    if lacking := [name for name in wanted[len(plain) :] if not name.startswith("[")]:
        raise ProbeError(f"expected {lacking[0]}, found the end of the statement")
    given, options = [], dict[str, Any]()
    for name, word in zip((name.strip("[]") for name in wanted), plain, strict=False):
        if name == "chained|free":
            options["chained"] = _value(name, word)
        else:
            given.append(_value(name, word))
    for match in filter(None, map(_OPTION.fullmatch, words)):
        if match[1] not in kinds or match[1] in options:
            raise ProbeError(f"nothing known by {_shown(match[1])} here, or it is given twice")
        options[match[1]] = _value(kinds[match[1]], match[2])
    return verb, given, options


def _value(kind: str, word: str) -> Any:
    """What a word stands for where the usage has `kind`."""
    if kind.startswith("BASE"):
        return _operand(word)
    if kind in _NUMBERS:
        return _number(kind, word)
    if kind in _WORDS:
        if word not in _WORDS[kind]:
            raise ProbeError(f"expected {kind.replace('|', ' or ')}, found {_shown(word)}")
        return _WORDS[kind][word]
    return _name(word)


def _operand(word: str) -> Operand:
    match = _OPERAND.fullmatch(word)
    if match is None:
        raise ProbeError(f"expected a base, whose name starts with a letter or stands in quotes, found {_shown(word)}")
    operand = Operand(Base(_name(match[1])))
    for offset in re.findall(r"[-+]\w+", match[2]):
        operand += _number("an offset", offset)
    return operand


def _number(name: str, word: str) -> int:
    match = _NUMBER.fullmatch(word)
    if match is None:
        form = "a number (64, 0x40, 1l for a line of 64 bytes, 1p for a page of 4096)"
        raise ProbeError(f"expected {name} as {form}, found {_shown(word)}")
    sign, digits, unit = match.groups()
    number = int(digits) if digits.isdecimal() else int(digits, 0)
    return int(f"{sign}1") * number * UNITS[unit]


def _name(word: str) -> str:
    if PLAIN_NAME.fullmatch(word):
        return word
    try:
        return msgspec.json.decode(word, type=str)
    except msgspec.DecodeError as error:
        raise ProbeError(f"expected a name, or one in quotes as JSON has them, found {_shown(word)}") from error


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:40] + "...")
