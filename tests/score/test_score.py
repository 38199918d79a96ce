"""Noise of scored machines, and which judgements a scenario answers for. Runs no simulation."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from setebench.cli.main import setebench
from setebench.results import Finding
from setebench.score import NOISES, Answer, Task, judge_all, with_noise
from setebench.sim import spec
from setebench.sim.loader import load
from setebench.sim.truth import truth

MACHINES = ("plain", "knc", "sandybridge", "zen-like", "random:3")


def true_values(machine: spec.Machine) -> dict[str, tuple[object, ...]]:
    return {finding.parameter: (finding.value, finding.low, finding.high) for finding in truth(machine)}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", MACHINES)
def test_noise_changes_nothing_that_is_true_of_a_machine(name: str, noise: str) -> None:
    machine = load(name)
    noisy = with_noise(machine, noise)
    before, after = true_values(machine), true_values(noisy)
    # what is reported in ticks or seconds of a core's cycles is a range where the core's clock drifts: that is noise
    of_clock = ("clock.cycles_per_tick", "clock.overhead.", "bandwidth.", "loaded_latency.")
    drifting = {p for p in before if p.startswith(of_clock)}
    assert len(drifting) > 1
    assert {p: v[: 1 if p in drifting else 3] for p, v in after.items()} == {
        p: v[: 1 if p in drifting else 3] for p, v in before.items()
    }


@pytest.mark.parametrize("name", MACHINES)
def test_a_quiet_machine_has_no_disturbance_at_all(name: str) -> None:
    quiet = with_noise(load(name), "quiet")
    assert quiet.noise == spec.Noise()
    assert (quiet.clock.drift, quiet.clock.jitter_cycles) == (0.0, 0.0)


def test_only_parameters_of_the_scenario_are_judged() -> None:
    truths = [Finding(parameter=p, value=4.0, unit="cycles") for p in ("latency.l1", "tlb.l1.miss_penalty.4k")]
    answer = Answer(machine="m", findings=[truths[0]], truths=truths, failures=[])
    assert [j.parameter for j in judge_all([answer], ("latency.l",))] == ["latency.l1"]
    assert [j.parameter for j in judge_all([answer], None)] == ["latency.l1", "tlb.l1.miss_penalty.4k"]
    assert [j.parameter for j in judge_all([answer], None, ("tlb.",))] == ["latency.l1"]


def test_what_any_machine_has_is_known_of_all() -> None:
    """A third level reported on a machine with two is wrong, because another machine has one."""
    level = Finding(parameter="latency.l3", value=40.0, unit="cycles")
    has = Answer(machine="three", findings=[level], truths=[level], failures=[])
    lacks = Answer(machine="two", findings=[level], truths=[], failures=[])
    judged = [(j.machine, j.verdict.value) for j in judge_all([has, lacks], None)]
    assert judged == [("three", "right"), ("two", "wrong")]


def test_a_wrong_answer_is_shown_with_the_seed_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone or among others, a random machine gets the same seed; and every parameter's coverage is in the table."""
    tasks: list[Task] = []

    def answers(given: list[Task], *_where: object) -> list[Answer]:
        tasks.extend(given)
        found = Finding(parameter="latency.l1", value=9.0, unit="cycles", low=8.5, high=9.5)
        true = Finding(parameter="latency.l1", value=4.0, unit="cycles")
        return [Answer(machine=task.machine, findings=[found], truths=[true], failures=[]) for task in given]

    monkeypatch.setattr("setebench.score.run.perform_all", answers)
    for machines, seed in ((3, 16), (1, 17)):
        options = ["score", "--machines", str(machines), "--seed", str(seed), "--no-presets", "--scenario", "latency"]
        done = CliRunner().invoke(setebench, options)
        assert done.exit_code == 0, done.output
        assert "wrong: --machine sim:random:17 --seed 17: latency.l1 reported 9.0 (measured), truth 4.0" in done.output
        row = next(line for line in done.output.splitlines() if line.startswith("latency.l1"))
        assert row.split() == ["latency.l1", "0", "0", "0", str(machines), "0", "0.0%", "25.0%"]
    assert len({task for task in tasks if task.machine == "random:17"}) == 1
