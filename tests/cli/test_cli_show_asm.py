"""`setebench show-asm`."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner, Result

from setebench.cli.main import setebench


def show_asm(*arguments: str, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(setebench, ["show-asm", *arguments], input=given)


def test_shows_each_operation_with_its_bytes() -> None:
    result = show_asm("flush a; fence; start; load a+64; stop")
    assert result.exit_code == 0
    titles = re.findall(r"^(\S.*) \((\d+) bytes\)$", result.stdout, re.MULTILINE)
    assert [title for title, _ in titles] == [
        "driver: enter, and begin a repetition",
        "operation 0: flush a",
        "operation 1: fence m",
        "operation 2: start",
        "operation 3: load a+64",
        "operation 4: stop",
        "driver: end a repetition, and leave",
    ]
    lines = re.findall(r"^ +([0-9a-f]+)  ((?:[0-9a-f]{2} )*[0-9a-f]{2}) +(\S.*)$", result.stdout, re.MULTILINE)
    sizes = [len(code.split()) for _, code, _ in lines]
    assert sum(sizes) == sum(int(size) for _, size in titles)
    assert [int(at, 16) for at, _, _ in lines] == [sum(sizes[:index]) for index in range(len(sizes))]
    assert "48 8b 86 40 00 00 00  mov rax, [rsi+0x40]" in result.stdout
    assert lines[-1][2] == "ret"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["read a"], "statement 1: unknown operation 'read'"),
        (["load a ip_bits=0; load b ip_bits=1"], "overlap at 0x1"),
    ],
)
def test_says_what_is_wrong_in_one_line(arguments: list[str], said: str) -> None:
    result = show_asm(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_bytes_that_are_no_text_are_shown_as_replaced() -> None:
    shown = show_asm('load "\udcff"')
    assert shown.exit_code == 0 and "operation 0: load" in shown.stdout
