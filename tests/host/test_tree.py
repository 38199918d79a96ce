from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.host.tree import MOST_CPUS, Tree, format_cpu_list, parse_cpu_list, parse_size


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", (0,)),
        ("0-3,8,10-11\n", (0, 1, 2, 3, 8, 10, 11)),
        ("5,1-2,2", (1, 2, 5)),
        (" 0 - 1 ".replace(" - ", "-"), (0, 1)),
        ("", ()),
        ("(null)\n", ()),
        (str(MOST_CPUS - 1), (MOST_CPUS - 1,)),
    ],
)
def test_cpu_lists(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize(
    "text", ["0-x", "3-1", "0,,1", ",", "-1", "0-", "0-4294967295", "99999999999", "1 2", "٣", "0x1"]
)
def test_malformed_cpu_lists_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="CPU"):
        parse_cpu_list(text)


@given(st.sets(st.integers(0, MOST_CPUS - 1), max_size=40))
def test_cpu_lists_survive_formatting(cpus: set[int]) -> None:
    ordered = tuple(sorted(cpus))
    text = format_cpu_list(ordered)
    assert text == "none" if not cpus else parse_cpu_list(text) == ordered


@pytest.mark.parametrize(
    ("text", "size"),
    [("32K", 32768), ("2048 kB", 2 << 20), ("1G", 1 << 30), ("7", 7), ("64 MiB", 64 << 20), ("12B", 12)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_missing_is_none_and_no_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    tree = Tree(tmp_path)
    assert tree.text("nothing/here") is None
    assert tree.text("file/below") is None
    assert tree.names("nothing", ".*") is None
    assert tree.exists("nothing/here") is None
    assert tree.exists("here") is False
    assert tree.problems == []


def test_text_reaches_a_terminal_without_escapes(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(b"\x1b[31mCPU\x07\xff\x00\n")
    assert Tree(tmp_path).text("name") == "[31mCPU?"
