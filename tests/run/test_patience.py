"""What is still open is asked again while there is patience: on a machine on which a co-runner comes and goes."""

from __future__ import annotations

from typing import Any

import numpy as np
from bare_machine import BareMachine
from scenario_files import Write

from setebench import campaign
from setebench.campaign import characterize, combined, repeats_of, steps_of
from setebench.machine import BusyTime
from setebench.results import Document, Finding, Outcome

QUESTION = """
def answer(context):
    from setebench.probe import Probe

    disturbed = context.machine.run(Probe().start().stop(), {seconds})[0, 0]
    context.evidence["seed"] = context.seed
    yield Finding(parameter="{name}.sure", value={seconds}, unit="entries")
    if disturbed:
        yield Finding(parameter="{name}.size", unit="entries", outcome=Outcome.UNRESOLVED, reason="disturbed")
    else:
        yield Finding(parameter="{name}.size", value={seconds}, unit="entries")
    {more}


SCENARIO = Scenario(name="{name}", summary="Asks.", answer=answer, parameters=("{name}.",), order={order})
"""


def question(name: str, seconds: int, order: int, more: str = "pass") -> str:
    return QUESTION.format(name=name, seconds=seconds, order=order, more=more)


class SharedMachine(BareMachine):
    """A repetition takes a second of its clock; its ticks are 1 where any second of the run was a co-runner's."""

    def __init__(self, *episodes: tuple[int, int]) -> None:
        super().__init__()
        self.now, self.episodes = 0, episodes

    def run(self, probe: Any, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> Any:
        begin, self.now = self.now, self.now + placements
        shared = any(first < self.now and begin < end for first, end in self.episodes)
        return np.full((placements, probe.intervals), int(shared), dtype=np.int64)

    def busy_time(self) -> BusyTime:
        return BusyTime(passed=float(self.now), others=0.0, cpus=2)


def asked(document: Document) -> list[str]:
    return [each.scenario for each in repeats_of(document)]


def test_what_a_co_runner_left_open_is_asked_again_what_costs_least_first(scenario_folder: Write) -> None:
    """The co-runner leaves at 40 s: everything is asked by 26 s, `cheap` again until 31 s, `costly` until 51 s, and so
    on until nothing is open."""
    scenario_folder(costly=question("costly", 20, 10), cheap=question("cheap", 5, 20), late=question("late", 1, 30))
    machine = SharedMachine((0, 25), (26, 40))
    document = characterize(machine, patience=60)
    assert asked(document) == ["cheap", "costly", "cheap", "costly"]
    assert [finding.outcome for finding in document.findings] == [Outcome.MEASURED] * 6
    assert {step.scenario: step.runs for step in steps_of(document)} == {"costly": 3, "cheap": 3, "late": 1}
    assert {step.scenario: step.elapsed_seconds for step in steps_of(document)} == {
        "costly": 60,
        "cheap": 15,
        "late": 1,
    }
    answered = {each.scenario: each.answered for each in repeats_of(document)}
    assert answered == {"cheap": ["cheap.size"], "costly": ["costly.size"]}
    assert document["costly.size"].evidence == "scenario.costly.again_2"
    assert document["costly.sure"].evidence == "scenario.costly", "what was known stays"
    seeds = {document.evidence[f"scenario.costly{each}"]["seed"] for each in ("", ".again_1", ".again_2")}
    assert len(seeds) == 3, "each asking draws lines of its own"


def test_a_question_that_asking_does_not_help_is_left_alone(scenario_folder: Write) -> None:
    scenario_folder(costly=question("costly", 20, 10), cheap=question("cheap", 5, 20))
    document = characterize(SharedMachine((0, 10**6)), patience=10**5)
    assert asked(document) == ["cheap", "costly"] * 2
    assert document["cheap.size"].outcome is Outcome.UNRESOLVED


def test_all_askings_are_inferred_again(scenario_folder: Write) -> None:
    scenario_folder(costly=question("costly", 20, 10), cheap=question("cheap", 5, 20))
    document = characterize(SharedMachine((0, 40)), patience=60, raw=True)
    again = campaign.infer(document)
    assert again.findings == document.findings
    assert asked(again) == asked(document) == ["cheap", "costly", "cheap", "costly"]
    assert [step.runs for step in steps_of(again)] == [3, 3]


def finding(name: str, value: Any = None, outcome: Outcome | None = None, **others: Any) -> Finding:
    outcome = outcome or (Outcome.MEASURED if value is not None else Outcome.UNRESOLVED)
    return Finding(parameter=name, value=value, outcome=outcome, reason="why", **others)


def test_an_answer_stays_and_only_more_information_replaces_none() -> None:
    known = [
        finding("a", 4.0, low=3.9, high=4.1),
        finding("b"),
        finding("c", 8, Outcome.AT_LEAST),
        finding("d", outcome=Outcome.UNAVAILABLE),
    ]
    again = [finding("a", 4.05, low=4.04, high=4.06), finding("b", 3), finding("c", 16, Outcome.AT_LEAST), finding("d")]
    both = combined(known, again)
    bounded = [known[0], again[1], known[2], known[3]]
    assert both == (bounded, ["b"], []), "the largest bound is one that noise has raised"
    assert combined(again, known)[0] == again
    assert combined(known, [finding("c", 16)])[0][2].value == 16, "a value says more than a bound"
