"""Names of nodes: order, folding, and which file is of which node."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fleets import number, put
from hypothesis import given
from hypothesis import strategies as st

from setebench.fleet.nodes import folded
from setebench.fleet.reading import files


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "none"),
        (["login"], "login"),
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["n001", "n002", "n100"], "n[001-002,100]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n9", "n09"], "n09,n9"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
        (["n1.site.org", "n2.site.org"], "n[1-2].site.org"),
        (["n[1]", "n2"], "n2,n[1]"),
    ],
)
def test_folding(names: list[str], text: str) -> None:
    assert folded(names) == text


def _unfolded(text: str) -> set[str]:
    names = set()
    for part in re.findall(r"[^,\[]*(?:\[[^\]]*\])?[^,\[]*", text):
        found = re.fullmatch(r"(.*)\[(.*)\](.*)", part)
        if found is None:
            names |= {part} - {""}
            continue
        for piece in found[2].split(","):
            first, _, last = piece.partition("-")
            for value in range(int(first), int(last or first) + 1):
                names.add(f"{found[1]}{value:0{len(first)}d}{found[3]}")
    return names


@given(st.sets(st.from_regex(r"\A[a-c]{1,2}[0-9]{1,3}(\.x)?\Z"), min_size=1, max_size=30))
def test_what_is_folded_unfolds_to_the_same_names(names: set[str]) -> None:
    assert _unfolded(folded(names)) == names


def test_a_file_is_of_the_node_that_its_name_says(tmp_path: Path) -> None:
    for name in ("n7.json", "n7.run-2.json", "n8/run-01.json", "n8/late.json", "truth.json", "n9.2.json"):
        put(tmp_path / "all" / name, [number("a", 1.0)])
    put(tmp_path / "n10" / "run-01.json", [number("a", 1.0)])
    found = files([tmp_path / "all", tmp_path / "n10", tmp_path / "all/n7.json"])
    named = {str(path.relative_to(tmp_path)): node for path, node in found.items()}
    assert named == {
        "all/n7.json": "n7",
        "all/n7.run-2.json": "n7",
        "all/n8/run-01.json": "n8",
        "all/n8/late.json": "n8",
        "all/n9.2.json": "n9",
        "n10/run-01.json": "n10",
    }
