"""`setebench advise-prefetch` on simulated machines: what it says, and how it proves it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from bare_machine import BareMachine
from click.testing import CliRunner, Result
from documents import make_document
from setebench.scenarios.advise_prefetch import words
from setebench.scenarios.advise_prefetch.proof import CHOOSES, Proof

from setebench import store
from setebench.cli.main import setebench
from setebench.errors import UsageError
from setebench.loops import Loop, Policy, Stream
from setebench.loops.advice import loop_of, prefetch_advice
from setebench.loops.shapes import shape
from setebench.results import Document
from setebench.session import run
from setebench.sim.files.loader import load
from setebench.sim.truth.parameters import truth
from setebench.text import visible


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result file that holds the truth of Knights Corner."""
    path = tmp_path_factory.mktemp("table") / "knc.json"
    store.save(make_document(list(truth(load("knc"))), {}, {"name": "knc"}), path)
    return path


@pytest.fixture(scope="module")
def knc(table: Path) -> Document:
    return store.load(table)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(setebench, ["advise-prefetch", "--machine", "sim:knc", "-q", *arguments])


@pytest.fixture(scope="module")
def answered(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Document:
    path = tmp_path_factory.mktemp("answer") / "advice.json"
    result = _run("--result", str(table), "--kernel", "list", "--kernel", "hash_join@8K", "--fast", "-o", str(path))
    assert result.exit_code == 0, result.output
    return store.load(path)


@pytest.mark.parametrize(("name", "value"), [("kernel", ["nothing"]), ("describe", "nothing.toml")])
def test_what_can_not_be_advised_for_is_refused_before_anything_is_measured(name: str, value: object) -> None:
    with pytest.raises(UsageError, match="nothing"):
        run("advise-prefetch", BareMachine(), **{name: value})


def test_a_list_gains_from_two_stages(answered: Document) -> None:
    assert answered["advice.list.strategy"].value == "two_stage_sw"
    speedup, regret = answered["advice.list.speedup"], answered["advice.list.regret"]
    assert isinstance(speedup.value, float) and speedup.low is not None and speedup.low > 5
    assert isinstance(regret.value, float) and regret.value < 15


def test_a_described_loop_prints_what_to_issue(table: Path, tmp_path: Path) -> None:
    loop = tmp_path / "loop.toml"
    loop.write_text(
        'name = "mine"\ncycles_per_iteration = 5.0\nworking_set_bytes = 100000000\niterations = 1000\n'
        '[[streams]]\nname = "a"\npattern = "sequential"\nbytes_per_iteration = 64\n'
    )
    result = _run("--result", str(table), "--describe", str(loop))
    assert result.exit_code == 0 and "__builtin_prefetch(address, 0, 3)" in result.stdout
    machine = json.loads(_run("--result", str(table), "--describe", str(loop), "--format", "json").stdout)
    assert machine["evidence"]["described"]["advice"]["why"][1] in result.stdout


@pytest.mark.parametrize("text", ["name = ", 'name = "l"\n'])
def test_a_bad_description_is_one_line(table: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "loop.toml"
    path.write_text(text)
    result = _run("--result", str(table), "--describe", str(path))
    assert result.exit_code == 2 and "Error:" in result.output and len(result.output.strip().splitlines()) <= 3


LOOP = {"name": "mine", "cycles_per_iteration": 5.0, "working_set_bytes": 10**8, "iterations": 1000}
STREAM = {"name": "a", "pattern": "indirect", "bytes_per_iteration": 64}


@pytest.mark.parametrize("value", [float("nan"), 10**12, -(1 << 62), 1e-300])
@pytest.mark.parametrize("field", [each.name for kind in (Loop, Stream) for each in msgspec.structs.fields(kind)])
def test_no_number_of_a_description_is_too_much(knc: Document, field: str, value: float) -> None:
    """It is refused in one line, or answered at once."""
    kind = Loop if field in Loop.__struct_fields__ and field != "name" else Stream
    loop, stream = ({**LOOP, field: value}, STREAM) if kind is Loop else (LOOP, {**STREAM, field: value})
    try:
        assert prefetch_advice(knc, {"streams": [stream], **loop}).strategy
    except UsageError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("text", ["x\n#define", "\x1b[2J\x00", "\u2028\r\v"])
def test_texts_of_a_description_stay_on_their_lines(knc: Document, text: str) -> None:
    loop = loop_of({**LOOP, "name": text, "unit": text, "streams": [{**STREAM, "name": text}]})
    said = words({"described": {"advice": msgspec.to_builtins(prefetch_advice(knc, loop))}})
    assert all(line.isprintable() and line.startswith(("  ", visible(text))) for line in said.split("\n"))


# -- the proof's statistics -------------------------------------------------------------------------------------------


def _proof(ticks: np.ndarray) -> Proof:  # type: ignore[type-arg]
    policies = (Policy(), *(Policy(l1_distance=d) for d in range(1, ticks.shape[1])))
    return Proof(loop=shape("triad"), ticks=ticks.astype(float), sweep=policies)


def test_choosing_and_timing_apart_does_not_flatter_the_best_of_many() -> None:
    """Thirty policies that are the same: the best of them isn't faster than any other."""
    rng = np.random.default_rng(3)
    behind = []
    for _ in range(200):
        proof = _proof(np.asarray(1e6 * rng.lognormal(0, 0.05, (18, 31)), dtype=np.int64))
        behind.append(proof.ratio(Policy(), proof.best_of_all(CHOOSES)).value)
    assert abs(np.mean(behind) - 1) < 0.01
