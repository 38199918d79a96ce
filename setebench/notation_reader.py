"""Reading the pattern notation (see `setebench.notation`).

A statement is turned into a call of the `Probe` method of the same name, whose argument names are those of `Form`. So
sizes, hints and the like are checked in one place, `Probe`, and this module adds where in the text it happened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from setebench.errors import ProbeError
from setebench.probe import BRACKETS, Base, Operand, Probe

UNITS = {"": 1, "l": 64, "p": 4096}
"""Suffixes of an offset or advance: lines and pages."""

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+|\#[^\n]*)
      | (?P<separator>[;\n])
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<number>0[xX][0-9a-fA-F]+[lp]?(?![\w.@])|[0-9]+[lp]?(?![\w.@]))
      | (?P<name>[\w.@]+)
      | (?P<mark>[-+={}])""",
    re.VERBOSE | re.ASCII,
)
PLAIN_BASE = re.compile(r"[A-Za-z_][\w.@]*", re.ASCII)
PLAIN_NAME = re.compile(r"[\w.@]+", re.ASCII)
"""Names that stand without quotes: of bases, and of instruction addresses."""
_DIGITS = 20  # more would not fit 64 bits


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


@dataclass(frozen=True)
class Form:
    """How an operation is written: `arguments` in their order, then `options` as name=value.

    Keys are argument names of the `Probe` method, values say how the text is read: `operand`, `number` (also with a
    unit), `name`, `word` (yes or no) or `chaining` (chained or free). The first `required` arguments must be there.
    """

    usage: str
    arguments: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    required: int = 1


_ORDER = {"after": "number"}
_PLACE = {"ip": "name", "ip_bits": "number", **_ORDER}
_WHERE = {"where": "operand"}
_PLACE_USAGE = "[ip=NAME] [ip_bits=NUMBER] [after=NUMBER]"

FORMS = {
    "load": Form(f"load BASE[+OFFSET] [size=8|16|32|64] {_PLACE_USAGE}", _WHERE, {"size": "number", **_PLACE}),
    "store": Form(f"store BASE[+OFFSET] [size=8|16|32|64] {_PLACE_USAGE}", _WHERE, {"size": "number", **_PLACE}),
    "prefetch": Form(
        f"prefetch BASE[+OFFSET] [hint=t0|t1|t2|nta|w] {_PLACE_USAGE}", _WHERE, {"hint": "name", **_PLACE}
    ),
    "flush": Form(
        "flush BASE[+OFFSET] [how=clflush|clflushopt|clwb] [after=NUMBER]", _WHERE, {"how": "name", **_ORDER}
    ),
    "chase": Form(
        "chase BASE[+OFFSET] STEPS [size=8|16|32|64] [work=free|chained] [after=NUMBER]",
        {"start": "operand", "steps": "number"},
        {"size": "number", "work": "name", **_ORDER},
        required=2,
    ),
    "stream": Form(
        "stream BASE[+OFFSET] KERNEL ARRAY_BYTES [width=8|16|32|64] [rolled=yes|no]",
        {"where": "operand", "kernel": "name", "array_bytes": "number"},
        {"width": "number", "rolled": "word"},
        required=3,
    ),
    "fence": Form("fence [m|l|s|serialize]", {"kind": "name"}, required=0),
    "wait": Form("wait CYCLES", {"cycles": "number"}),
    "nop": Form("nop COUNT", {"count": "number"}),
    "multiply": Form("multiply COUNT [chained|free]", {"count": "number", "chained": "chaining"}),
    "add": Form("add COUNT", {"count": "number"}),
    "transfer": Form("transfer COUNT", {"count": "number"}),
    "barrier": Form("barrier", required=0),
    "start": Form(
        f"start [INTERVAL] [bracket={'|'.join(BRACKETS)}] [dither=yes|no]",
        {"interval": "number"},
        {"bracket": "name", "dither": "word"},
        required=0,
    ),
    "stop": Form(
        f"stop [INTERVAL] [bracket={'|'.join(BRACKETS)}]", {"interval": "number"}, {"bracket": "name"}, required=0
    ),
    "repeat": Form("repeat COUNT [advance=OFFSET] { STATEMENTS }", {"count": "number"}, {"advance": "number"}),
}
"""Every operation of the notation."""

_WORDS = {"word": {"yes": True, "no": False}, "chaining": {"chained": True, "free": False}}


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            yield _Token("stray", text[at], at)
            return
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match.group(), at)
        at = match.end()
    yield _Token("end", "", at)


class Reader:
    """Reads statements from left to right; `_now` is the token that comes next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rest = _tokens(text)
        self._now = next(self._rest)
        self._statements_read = 0
        self._current = 1
        self._usage = ""

    def probe(self) -> Probe:
        probe = self._statements(nested=False)
        if self._now.kind != "end":
            self._current, self._usage = self._statements_read + 1, ""
            raise self._error("this } closes nothing", self._now.at)
        return probe

    def _statements(self, nested: bool) -> Probe:
        probe = Probe()
        while True:
            while self._now.kind == "separator":
                self._step()
            if self._now.kind == "end" or self._now.text == "}":
                return probe
            probe = self._one(probe, nested)
            if self._now.kind not in ("separator", "end") and not (nested and self._now.text == "}"):
                raise self._unexpected("; or a new line")

    def _one(self, probe: Probe, nested: bool) -> Probe:
        self._statements_read += 1
        self._current = number = self._statements_read
        verb, at = self._now.text, self._now.at
        if self._now.kind != "name" or verb not in FORMS:
            self._usage = ", ".join(FORMS)
            raise self._error(f"unknown operation {_shown(verb)}", at)
        self._step()
        self._usage = FORMS[verb].usage
        arguments = self._arguments(FORMS[verb])
        if verb == "repeat":
            if nested:
                raise self._error("a repeated body can't hold another repeat", at)
            arguments["body"] = self._body(at)
            self._current, self._usage = number, FORMS[verb].usage
        try:
            longer: Probe = getattr(probe, verb)(**arguments)
        except ProbeError as error:
            raise self._error(str(error), at) from error
        return longer

    def _body(self, opened_at: int) -> Probe:
        number, usage = self._current, self._usage
        self._take("{")
        body = self._statements(nested=True)
        if self._now.kind == "end":
            self._current, self._usage = number, usage
            raise self._error("its { is never closed", opened_at)
        self._step()
        return body

    # -- arguments --------------------------------------------------------------------------------------------------

    def _arguments(self, form: Form) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, kind in form.arguments.items():
            if self._at_end_of_arguments() or (len(values) >= form.required and self._now.text in form.options):
                break
            values[name] = self._value(name, kind)
        if len(values) < form.required:
            name, kind = list(form.arguments.items())[len(values)]
            raise self._unexpected("BASE" if kind == "operand" else name.upper())
        while not self._at_end_of_arguments():
            self._option(form, values)
        return values

    def _at_end_of_arguments(self) -> bool:
        return self._now.kind in ("separator", "end") or self._now.text in ("{", "}")

    def _option(self, form: Form, values: dict[str, object]) -> None:
        name, at = self._now.text, self._now.at
        if self._now.kind != "name" or name not in form.options:
            raise self._error(f"nothing known by {_shown(name)} here", at)
        if name in values:
            raise self._error(f"{name} is given twice", at)
        self._step()
        self._take("=")
        values[name] = self._value(name, form.options[name])

    def _value(self, name: str, kind: str) -> object:
        if kind == "operand":
            return self._operand()
        if kind == "number":
            return self._number(name)
        if kind == "name":
            return self._name(name)
        words = _WORDS[kind]
        if self._now.text not in words:
            raise self._unexpected(f"{name}: {' or '.join(words)}")
        return words[self._step().text]

    def _operand(self) -> Operand:
        if self._now.kind != "text" and not PLAIN_BASE.fullmatch(self._now.text):
            raise self._unexpected("a base, whose name starts with a letter or stands in quotes")
        operand = Operand(Base(self._name("a base")))
        while self._now.text in ("+", "-") and self._now.kind == "mark":
            sign = -1 if self._step().text == "-" else 1
            operand += sign * self._digits("an offset")
        return operand

    def _number(self, name: str) -> int:
        negative = self._now.kind == "mark" and self._now.text == "-"
        if negative:
            self._step()
        return -self._digits(name) if negative else self._digits(name)

    def _digits(self, name: str) -> int:
        if self._now.kind != "number":
            raise self._unexpected(f"{name} as a number (64, 0x40, 1l for a line of 64 bytes, 1p for a page of 4096)")
        text = self._now.text.lower()
        unit = text[-1] if text[-1] in UNITS else ""
        digits = text.removesuffix(unit)
        if len(digits) > _DIGITS:
            raise self._error(f"{name} has more than {_DIGITS} digits", self._now.at)
        self._step()
        return UNITS[unit] * (int(digits, 16) if digits.startswith("0x") else int(digits))

    def _name(self, name: str) -> str:
        if self._now.kind in ("name", "number"):
            return self._step().text
        if self._now.kind != "text":
            raise self._unexpected(name)
        try:
            text: str = json.loads(self._now.text)
        except ValueError as error:
            raise self._error("this quoted name has a backslash that JSON doesn't know", self._now.at) from error
        self._step()
        return text

    # -- tokens and errors ------------------------------------------------------------------------------------------

    def _step(self) -> _Token:
        taken = self._now
        self._now = next(self._rest, taken)
        return taken

    def _take(self, mark: str) -> None:
        if self._now.kind != "mark" or self._now.text != mark:
            raise self._unexpected(mark)
        self._step()

    def _unexpected(self, wanted: str) -> ProbeError:
        found = {"end": "the end", "separator": "the end of the statement"}.get(self._now.kind, _shown(self._now.text))
        return self._error(f"expected {wanted}, found {found}", self._now.at)

    def _error(self, problem: str, at: int) -> ProbeError:
        before = self._text[:at]
        line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
        allowed = f"; allowed: {self._usage}" if self._usage else ""
        problem = " ".join(problem.split())  # a quoted name may hold line ends
        return ProbeError(f"statement {self._current} (line {line}, column {column}): {problem}{allowed}")


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:40] + "...")
