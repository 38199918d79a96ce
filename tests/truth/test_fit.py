"""Fitting: the machine decides between a twin and a changed one, and the machine file says so."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from small_machines import file, small

from setebench.cli.main import setebench
from setebench.machine import open_machine
from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import origins, parse
from setebench.truth import fit as fitting
from setebench.truth.twin import Twin, as_toml, twin_of_file
from setebench.truth.verify import Request, Verified
from setebench.truth.verify.check import opened_twin, surroundings
from setebench.truth.verify.explain import Explanation
from setebench.truth.verify.families import drawn

__all__ = ["file"]  # a fixture

PATH = ("prefetchers", 3, "trigger")


def wrong() -> spec.Machine:
    """Its streamer begins too early."""
    *others, streamer = small().prefetchers
    return msgspec.structs.replace(small(), prefetchers=(*others, msgspec.structs.replace(streamer, trigger=2)))


def checked(file: Path, machine: spec.Machine) -> Verified:
    request = Request(machine=f"sim:{file}", minutes=1.0, trials=40)
    return Verified(twin_of_file(dump(machine), "twin.toml"), request, [], 0.0, {1: 0.0}, 4)


def change(to: spec.Machine, value: int) -> Explanation:
    return Explanation("prefetchers[3].trigger", value, 2, 3, 0, 3, PATH, 0.9, to)


def test_the_machine_sides_with_what_is_like_it(file: Path) -> None:
    won, asked = fitting._referee(checked(file, wrong()), small(), 2)
    assert asked >= 7 and won >= 0.9 * asked
    lost, asked = fitting._referee(checked(file, small()), wrong(), 2)
    assert asked >= 7 and lost <= 0.1 * asked


def test_a_field_is_fitted_and_the_file_says_why(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "verify", lambda twin, request, progress: _stub(twin, request))
    monkeypatch.setattr(fitting, "explanations", lambda checked, seconds, progress: [change(small(), 5)])
    twin = twin_of_file(dump(wrong()), "twin.toml")
    better, steps = fitting.fit(twin, Request(machine=f"sim:{file}", minutes=1.0, trials=40))
    assert better.machine == small() and [step.field for step in steps] == ["prefetchers[3].trigger"]
    text = as_toml(better)
    assert "# fitted: prefetchers[3].trigger" in text and parse(text, "x") == small()
    told = origins(text, "x")
    assert told["prefetchers[3].trigger"].origin == "fitted" and "instead of 2" in told["prefetchers[3].trigger"].why
    assert told["levels[0].sets"].origin == "assumed"


def _stub(twin: Twin, request: Request) -> Verified:
    """Contradicted as long as it is the wrong one."""
    return Verified(twin, request, [], 0.0, {1: 0.0 if twin.machine == wrong() else 1.0}, 4)


def test_origins_follow_prefetchers_that_move() -> None:
    twin = twin_of_file(dump(small()), "twin.toml")
    fewer = msgspec.structs.replace(small(), prefetchers=small().prefetchers[1:])
    twin.origins["prefetchers", 3, "trigger"] = msgspec.structs.replace(twin.origins[PATH], why="found so")
    each = Explanation("prefetchers[0]", "no l1.next_line", None, 1, 0, 1, ("prefetchers", 0), 0.5, fewer)
    step = fitting.Step("prefetchers[0]", "no l1.next_line", None, 9, 10)
    changed = fitting._changed(twin, each, step)
    assert changed.origins["prefetchers", 2, "trigger"].why == "found so"
    assert "no l1.next_line" in as_toml(changed)


def test_draws_are_disjoint_from_those_of_the_check(file: Path) -> None:
    machine = open_machine(f"sim:{file}", seed=1)
    with opened_twin(small(), 1) as model:
        around = surroundings(small(), machine, model)
    machine.close()
    drawings = [[drawn(1, number, around, purpose) for number in range(30)] for purpose in range(4)]
    for one in range(4):
        for other in range(one):
            assert not any(a == b for a, b in zip(drawings[one], drawings[other], strict=True))


def test_a_coin_decides_nothing() -> None:
    assert fitting._by_coin(7, 7) < 0.01 < fitting._by_coin(6, 6) and fitting._by_coin(0, 0) == 1.0


def test_bad_use_is_told_before_anything_is_asked() -> None:
    ended = CliRunner().invoke(setebench, ["fit", "nothing.json", "-o", "fitted.txt"])
    assert ended.exit_code == 2 and ".toml" in ended.output
