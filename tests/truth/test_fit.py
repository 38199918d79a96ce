"""Fitting: the machine decides between a twin and a changed one, and the machine file says so."""

from __future__ import annotations

from pathlib import Path

import msgspec
from click.testing import CliRunner
from small_machines import file, small

from setebench.cli.main import setebench
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import origins, parse
from setebench.truth.fit import fit
from setebench.truth.twin import as_toml, twin_of_file
from setebench.truth.verify.check import Request

__all__ = ["file"]  # a fixture


def test_a_field_that_verification_contradicts_is_fitted_and_the_file_says_why(file: Path) -> None:
    """Level 2 has twice its sets in the twin: its capacity is fitted."""
    first, second, third = small().levels
    larger = msgspec.structs.replace(second, sets=2 * second.sets)
    twin = twin_of_file(dump(msgspec.structs.replace(small(), levels=(first, larger, third))), "twin.toml")
    better = fit(twin, Request(machine=f"sim:{file}", minutes=6.0, trials=120))
    level = better.machine.levels[1]
    assert level.ways * level.sets < larger.ways * larger.sets
    text = as_toml(better)
    assert 'origin = "fitted"' in text and parse(text, "x") == better.machine
    fitted = [each for each in origins(text, "x").values() if each.origin == "fitted"]
    assert fitted and all("instead of" in each.why for each in fitted)


def test_bad_use_ends_before_anything_is_measured() -> None:
    ended = CliRunner().invoke(setebench, ["fit", "nothing.json", "-o", "fitted.txt"])
    assert ended.exit_code == 2 and ".toml" in ended.output
