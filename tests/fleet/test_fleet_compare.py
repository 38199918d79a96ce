"""`fleet compare`: what stands out, what differs together, what bad files cost; and names of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleets import absent, answer, number, put, silent

from setebench.fleet.comparison import Fleet, compare
from setebench.fleet.reading import files, folded

Rng = np.random.Generator


def findings(rng: Rng, node: int) -> list[dict[str, Any]]:
    """One run of a node of a made fleet: nodes 12 to 15 lack a prefetcher and answer later in L2."""
    other = 12 <= node < 16
    present = absent("prefetcher.l2.pair.present") if other else answer("prefetcher.l2.pair.present", True)
    trigger = absent if other else (lambda name: number(name, 3.0 + rng.normal(0, 0.05), 0.2))
    return [
        number("latency.l1", 4 + rng.normal(0, 0.02), 0.05),
        number("latency.l2", (15.4 if other else 14) + rng.normal(0, 0.05), 0.1),
        answer("mshr.l1.demand", 12),
        answer("prefetcher.l2.pair.trained_by", ["load", "store"] if node % 2 else ["store", "load"]),
        present,
        trigger("prefetcher.l2.pair.trigger"),
        silent("latency.memory", "the clock drifts") if node == 3 else number("latency.memory", 250 + rng.normal(0, 1)),
    ]


def made(folder: Path, nodes: int = 40, runs: int = 3, seed: int = 1) -> Path:
    rng = np.random.default_rng(seed)
    for node in range(nodes):
        for run in range(runs):
            put(folder / f"n{node:02d}.run-{run}.json", findings(rng, node))
    return folder


def of(fleet: Fleet, parameter: str) -> list[str]:
    return [mark.node for mark in fleet.marks if mark.parameter == parameter and mark.alarm]


def test_nodes_that_differ_together(tmp_path: Path) -> None:
    fleet = compare([made(tmp_path)])
    four = [f"n{node}" for node in range(12, 16)]
    assert {mark.node for mark in fleet.marks} == set(four)
    for parameter in ("latency.l2", "prefetcher.l2.pair.present"):
        assert sorted(of(fleet, parameter)) == four


def test_bad_files_cost_a_line_each(tmp_path: Path) -> None:
    made(tmp_path, nodes=5)
    (tmp_path / "n90.json").write_text("{")
    (tmp_path / "n91.json").write_text('{"schema": 1, "findings": [{"parameter": 3}]}')
    (tmp_path / "n92.json").write_text('{"schema": 9, "findings": []}')
    put(tmp_path / "n93.json", [number("latency.l1", 1e300), number("latency.l1", 4.0)], version="9.9")
    for node, version in ((94, 1), (95, 2)):
        put(tmp_path / f"n{node}.json", [number("latency.l1", 4.0) | {"method_version": version}], version="9.9")
    fleet = compare([tmp_path])
    for name, why in (("n90", "damaged"), ("n91", "not a setebench result"), ("n92", "newer setebench")):
        assert sum(name in note and why in note for note in fleet.notes) == 1
    assert any("how they were made: 0.1.0 on n[00-04]; 9.9 on n[93-95]" in note for note in fleet.notes)
    assert any("different versions" in note and note.endswith("differ: latency.*") for note in fleet.notes)
    assert [each.reason for each in fleet.open if each.nodes == "n93"] == ["no measurement is so large"]
    assert all(np.isfinite([mark.p for mark in fleet.marks]))


# -- names of nodes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "none"),
        (["login"], "login"),
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["n001", "n002", "n100"], "n[001-002,100]"),
        (["n1.site.org", "n2.site.org"], "n[1-2].site.org"),
        (["n[1]", "n2"], "n2,n[1]"),
    ],
)
def test_folding(names: list[str], text: str) -> None:
    assert folded(names) == text


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
