"""Reading the pattern notation (see `setebench.probe.notation`).

A statement is turned into a call of the `Probe` method of the same name, whose arguments are in the order of its usage.
So sizes, hints and the like are checked in one place, `Probe`, and this module adds in which statement it happened.
"""

from __future__ import annotations

import json
import re
from typing import Any

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
      | (?P<mark>[-+={}])
      | (?P<stray>.)""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
PLAIN_BASE = re.compile(r"[A-Za-z_][\w.@]*", re.ASCII)
PLAIN_NAME = re.compile(r"[\w.@]+", re.ASCII)
"""Names that stand without quotes: of bases, and of instruction addresses."""
_DIGITS = 20  # more would not fit 64 bits

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


class Reader:
    """Reads statements from left to right; tokens are (kind, text)."""

    def __init__(self, text: str) -> None:
        found = ((str(match.lastgroup), match.group()) for match in _TOKEN.finditer(text))
        self._tokens = [*((kind, word) for kind, word in found if kind != "space"), ("end", "")]
        self._at = self._statement = 0
        self._usage = ""

    @property
    def _now(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def probe(self) -> Probe:
        """All statements. Raises `ProbeError`."""
        probe = self._statements(nested=False)
        if self._now[0] != "end":
            self._statement, self._usage = self._statement + 1, ""
            raise self._error("this } closes nothing")
        return probe

    def _statements(self, nested: bool) -> Probe:
        probe = Probe()
        while True:
            while self._now[0] == "separator":
                self._at += 1
            if self._now[0] == "end" or self._now[1] == "}":
                return probe
            probe = self._one(probe, nested)
            if self._now[0] not in ("separator", "end") and not (nested and self._now[1] == "}"):
                raise self._unexpected("; or a new line")

    def _one(self, probe: Probe, nested: bool) -> Probe:
        self._statement += 1
        number, verb = self._statement, self._now[1]
        if self._now[0] != "name" or verb not in FORMS:
            self._usage = ", ".join(FORMS)
            raise self._error(f"unknown operation {_shown(verb)}")
        self._at += 1
        self._usage = usage = f"{verb} {FORMS[verb]}".strip()
        given, options = self._arguments(FORMS[verb].partition(" {")[0].split())
        if verb == "repeat":
            if nested:
                raise self._error("a repeated body can't hold another repeat")
            self._take("{")
            given.append(self._statements(nested=True))
            self._statement, self._usage, last = number, usage, self._statement
            if self._now[0] == "end":
                raise self._error("its { is never closed")
            self._at += 1
        try:
            longer: Probe = getattr(probe, verb)(*given, **options)
        except ProbeError as error:
            raise self._error(str(error)) from error
        self._statement = last if verb == "repeat" else number
        return longer

    # -- arguments --------------------------------------------------------------------------------------------------

    def _arguments(self, usage: list[str]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments and options of a statement, as its usage has them."""
        kinds = dict(word.strip("[]").split("=") for word in usage if "=" in word)
        given: list[Any] = []
        options: dict[str, Any] = {}
        for word in (word for word in usage if "=" not in word):
            optional, name = word.startswith("["), word.strip("[]")
            if optional and (self._ended or self._now[1] in kinds):
                break
            if name == "chained|free":
                options["chained"] = self._value("chained", name)
            else:
                given.append(self._value(name, name))
        while not self._ended:
            name = self._now[1]
            if self._now[0] != "name" or name not in kinds:
                raise self._error(f"nothing known by {_shown(name)} here")
            if name in options:
                raise self._error(f"{name} is given twice")
            self._at += 1
            self._take("=")
            options[name] = self._value(name, kinds[name])
        return given, options

    @property
    def _ended(self) -> bool:
        return self._now[0] in ("separator", "end") or self._now[1] in ("{", "}")

    def _value(self, name: str, kind: str) -> Any:
        if kind.startswith("BASE"):
            return self._operand()
        if kind in _NUMBERS:
            return self._digits(name, signed=True)
        if kind not in _WORDS:
            return self._name(name)
        if self._now[1] not in _WORDS[kind]:
            raise self._unexpected(f"{name}: {kind.replace('|', ' or ')}")
        return _WORDS[kind][self._step()]

    def _operand(self) -> Operand:
        if self._ended:
            raise self._unexpected("BASE")
        if self._now[0] != "text" and not PLAIN_BASE.fullmatch(self._now[1]):
            raise self._unexpected("a base, whose name starts with a letter or stands in quotes")
        operand = Operand(Base(self._name("a base")))
        while self._now in (("mark", "+"), ("mark", "-")):
            sign = -1 if self._step() == "-" else 1
            operand += sign * self._digits("an offset")
        return operand

    def _digits(self, name: str, signed: bool = False) -> int:
        if signed and self._now == ("mark", "-"):
            self._at += 1
            return -self._digits(name)
        if self._now[0] != "number":
            raise self._unexpected(f"{name} as a number (64, 0x40, 1l for a line of 64 bytes, 1p for a page of 4096)")
        text = self._now[1].lower()
        unit = text[-1] if text[-1] in UNITS else ""
        digits = text.removesuffix(unit)
        if len(digits) > _DIGITS:
            raise self._error(f"{name} has more than {_DIGITS} digits")
        self._at += 1
        return UNITS[unit] * (int(digits, 16) if digits.startswith("0x") else int(digits))

    def _name(self, name: str) -> str:
        if self._now[0] in ("name", "number"):
            return self._step()
        if self._now[0] != "text":
            raise self._unexpected(name)
        try:
            text: str = json.loads(self._now[1])
        except ValueError as error:
            raise self._error("this quoted name has a backslash that JSON doesn't know") from error
        self._at += 1
        return text

    # -- tokens and errors ------------------------------------------------------------------------------------------

    def _step(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _take(self, mark: str) -> None:
        if self._now != ("mark", mark):
            raise self._unexpected(mark)
        self._at += 1

    def _unexpected(self, wanted: str) -> ProbeError:
        kind, text = self._now
        found = {"end": "the end", "separator": "the end of the statement"}.get(kind, _shown(text))
        return self._error(f"expected {wanted}, found {found}")

    def _error(self, problem: str) -> ProbeError:
        allowed = f"; allowed: {self._usage}" if self._usage else ""
        problem = " ".join(problem.split())  # a quoted name may hold line ends
        return ProbeError(f"statement {self._statement}: {problem}{allowed}")


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:40] + "...")
