"""Running all scenarios: their order, what they share, and what a failing one costs."""

from __future__ import annotations

import pytest
from bare_machine import BareMachine
from scenario_files import EARLY, FAILING, LATE, MACHINE, Write, write_files

from setebench import campaign, store
from setebench.campaign import Listener, Plan, characterize
from setebench.results import Document


def _steps(document: Document) -> dict[str, str]:
    return {step.scenario: step.state for step in campaign.steps_of(document)}


def test_scenarios_run_in_their_order_and_share_what_they_know(scenario_folder: Write) -> None:
    scenario_folder(late=LATE, early=EARLY)
    document = characterize(MACHINE)
    assert _steps(document) == {"early": "done", "late": "done"}
    assert list(_steps(document)) == ["early", "late"]
    assert document.evidence["scenario.late"]["step_ticks"] == 26.0
    assert document.evidence["scenario.early"]["seen"] == [1, 2, 3]
    assert document.evidence["cycles"] == {"cycles_per_ns": 4.0}
    assert [machine.closed for machine in BareMachine.opened] == [True]


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ('raise SetebenchError("too\\nnoisy")', "too noisy"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ('yield Finding(parameter="latency.l2", value=float("nan"))', "ValueError: latency.l2: nan"),
        ('context.evidence["it"] = object()', "TypeError: a result file can't hold a object"),
    ],
)
def test_a_failing_scenario_costs_its_own_rows_alone(scenario_folder: Write, what: str, reason: str) -> None:
    scenario_folder(early=EARLY, failing=FAILING.format(what=what), late=LATE)
    errors: list[tuple[str, Exception]] = []
    document = characterize(MACHINE, listener=Listener(failed=lambda name, error: errors.append((name, error))))
    assert _steps(document) == {"early": "done", "failing": "failed", "late": "done"}
    failed = next(step for step in campaign.steps_of(document) if step.state == "failed")
    assert failed.reason is not None and failed.reason.startswith(reason) and "\n" not in failed.reason
    assert document["blocking.load"].value == "nonblocking", "what it had reported before stays"
    assert document.evidence["scenario.late"]["step_ticks"] == 26.0, "what it left half done is forgotten"
    assert [name for name, _ in errors] == ["failing"]
    assert b"failing" in store.dumps(document)


# -- going on -------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_where_it_was_interrupted(scenario_folder: Write) -> None:
    folder = scenario_folder(early=EARLY, failing=FAILING.format(what="raise KeyboardInterrupt"), late=LATE)
    saved: list[Document] = []
    with pytest.raises(KeyboardInterrupt):
        characterize(MACHINE, seed=7, fast=True, listener=Listener(saved=saved.append))
    earlier = saved.pop()
    assert campaign.plan_of(earlier) == Plan(scenarios=("early", "failing", "late"), machine=MACHINE, seed=7, fast=True)
    with pytest.raises(KeyboardInterrupt):
        campaign.carry_out(earlier, BareMachine(), Listener(saved=saved.append))
    assert saved == [], "what was done is not done again"
    write_files(folder, failing=FAILING.format(what="pass"))
    document = campaign.carry_out(earlier, BareMachine(), Listener())
    assert _steps(document) == dict.fromkeys(("early", "failing", "late"), "done") and len(document.findings) == 4
    assert document.evidence["scenario.early"] == earlier.evidence["scenario.early"]
    assert document["clock.step"] == earlier["clock.step"]
    assert document.started == earlier.started
    assert document.evidence["scenario.late"]["step_ticks"] == 1e6, "of its own session alone"


def test_what_a_failed_scenario_reported_goes_when_it_has_another_turn(scenario_folder: Write) -> None:
    folder = scenario_folder(early=EARLY, failing=FAILING.format(what="1 / 0"))
    earlier = characterize(MACHINE)
    assert "blocking.load" in earlier
    write_files(folder, failing=FAILING.format(what="pass").replace("blocking.load", "blocking.store"))
    again = campaign.carry_out(earlier, BareMachine(), Listener())
    assert "blocking.store" in again and "blocking.load" not in again and "clock.step" in again
