"""The accuracy page: tables from judgements, and the page from scores that were really run."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from scenario_files import Write, runs

from setebench.errors import UsageError
from setebench.score.run import read_sealed
from setebench.sim.files.loader import load

ROOT = Path(__file__).resolve().parents[2]


# -- the page, from scores that were run ------------------------------------------------------------------------------

TINY = """
def answer(context):
    yield Finding(parameter="cache.l1.ways", value=8, unit="ways")
    yield Finding(parameter="latency.l1", value=4.0, low=3.5, high=4.5, unit="cycles")


SCENARIO = Scenario(name="tiny", summary="Says.", answer=answer, parameters=("cache.l1.ways", "latency.l1"))
"""
MACHINES = 6


@pytest.fixture
def scored(own_state: None, tmp_path: Path, scenario_folder: Write) -> Any:
    """Runs a score of a tiny scenario, and returns its document and its file of answers."""
    scenario_folder(tiny=TINY)

    def run(*arguments: str) -> tuple[Path, Path]:
        files = ("--answers", "a.jsonl", "-o", "score.json", "--format", "json")
        done = runs("score", "-q", "--workers", "1", "--machines", str(MACHINES))(
            "--scenario", "tiny", *files, *arguments
        )
        assert done.exit_code == 0, done.output
        return tmp_path / "score.json", tmp_path / "a.jsonl"

    return run


@pytest.fixture
def tool() -> Any:
    """benchmarks/accuracy.py as a module."""
    made = importlib.util.spec_from_file_location("accuracy_tool", ROOT / "benchmarks/accuracy.py")
    assert made is not None and made.loader is not None
    found = importlib.util.module_from_spec(made)
    made.loader.exec_module(found)
    return found


def test_a_page_of_a_run_that_is_complete(
    scored: Any, tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, answers = scored("--no-presets", "--sealed")
    page_file, figures = tmp_path / "accuracy.md", tmp_path / "accuracy.json"
    words = ["accuracy", "--page", str(page_file), "--figures", str(figures), "--from", str(answers)]
    monkeypatch.setattr(sys, "argv", words)
    tool.main()
    (whole,) = json.loads(figures.read_text())
    first = json.loads(document.read_text())
    assert first["sealed"].pop("log") and first == whole, "answers judged later give what the run gave"
    row = whole["accuracy"]["tiny"]["parameters"]["cache.l1.ways"]
    truths = {name: load(name).levels[0].ways for name in first["machines"]}
    assert row["right"] == sum(ways == 8 for ways in truths.values())
    assert row["wrong"] == MACHINES - row["right"] and row["rows"] == MACHINES
    text = re.sub(" +", " ", page_file.read_text())
    assert f"| tiny | {MACHINES} |" in text and f"| all together | {MACHINES} |" in text
    assert f"| `cache.l1.ways` | {MACHINES} | {row['right']} | 0 | 0 | {row['wrong']} |" in text
    assert f"setebench score --sealed --machines {MACHINES} --scenario tiny" in text
    assert "1 begun, 1 ended, 0 stopped" in text and "inference has changed" not in text
    assert re.search(r"\| Zen 4 .*\| \d+ \| \d+ \| \d+ \(\d+%\) \|", text), "what silicon answered"
    part = tmp_path / "part.jsonl"
    part.write_bytes(b"\n".join(answers.read_bytes().splitlines()[:4]) + b'\n{"line": "ans')
    monkeypatch.setattr(sys, "argv", [*words[:-1], str(part)])
    with pytest.raises(SystemExit, match=f"has 3 of {MACHINES} machines"):
        tool.main()


def test_runs_of_a_cpu_on_the_page_are_counted_together(tool: Any) -> None:
    rows = [["Zen 4; two runs", "14", "12, 10", "1", "0, 2", "0"], ["", "10 (one varies)", "8, 9", "2, 1", "0", "0"]]
    assert tool.beside_c(rows) == [["Zen 4", "2", "46", "39 (85%)", "5 (11%)", "2 (4%)", "0 (0%)"]]


def test_what_is_not_sealed_is_refused(scored: Any, tmp_path: Path) -> None:
    _, answers = scored("--seed", "5", "--no-presets")
    with pytest.raises(UsageError, match="of a sealed run"):
        read_sealed(answers)
    lines = answers.read_bytes().splitlines()
    plan = json.loads(lines[0])
    plan["plan"]["nonce"] = "of the judge"
    (tmp_path / "forged.jsonl").write_bytes(b"\n".join([json.dumps(plan).encode(), *lines[1:], b""]))
    with pytest.raises(UsageError, match="don't follow from its nonce"):
        read_sealed(tmp_path / "forged.jsonl")
