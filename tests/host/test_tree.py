from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.host.tree import MOST_CPUS, Tree, format_cpu_list, parse_choice, parse_cpu_list, parse_number, parse_size


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


def test_neighbours_are_written_as_a_range() -> None:
    assert format_cpu_list((11, 0, 1, 2, 3, 8, 10)) == "0-3,8,10-11"


@pytest.mark.parametrize(
    ("text", "size"),
    [("32K", 32768), ("2048 kB", 2 << 20), ("1G", 1 << 30), ("7", 7), ("64 MiB", 64 << 20), ("12B", 12)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "-5 kB", "32 potatoes", "1.5M", "0x10"])
def test_malformed_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


def test_numbers_and_choices() -> None:
    assert (parse_number("-1\n"), parse_choice("always defer+madvise [madvise] never")) == (-1, "madvise")
    with pytest.raises(ValueError, match="not a number"):
        parse_number("1_000")
    with pytest.raises(ValueError, match="no choice"):
        parse_choice("always madvise never")


def test_missing_is_none_and_no_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    tree = Tree(tmp_path)
    assert tree.text("nothing/here") is None
    assert tree.text("file/below") is None
    assert tree.names("nothing", ".*") is None
    assert tree.exists("nothing/here") is None
    assert tree.exists("here") is False
    assert tree.problems == []


def test_what_is_there_and_useless_is_reported(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "count").write_text("many")
    tree = Tree(tmp_path)
    assert tree.text("folder") is None
    assert tree.value("count", parse_number) is None
    assert tree.problems == ["folder: Is a directory", "count: not a number: 'many'"]


def test_text_reaches_a_terminal_without_escapes(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(b"\x1b[31mCPU\x07\xff\x00\n")
    assert Tree(tmp_path).text("name") == "[31mCPU?"
