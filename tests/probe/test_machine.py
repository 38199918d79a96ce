"""Opening machines by name, and running probes interleaved, with a machine whose ticks say where they came from."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
from bare_machine import BareMachine

from setebench.errors import UsageError
from setebench.machine import Machine, Ticks, open_machine, run_interleaved
from setebench.probe import Base, Placements, Probe, placement_table

A, B = Base("a"), Base("b")
ONE = Probe().load(A).start().stop()
TWO = Probe().load(B).load(A).start().stop().start(1).stop(1)


# ---- interleaving -------------------------------------------------------------------------------------------------


class Interleaved(BareMachine):
    """Interval i of a repetition takes 10 * (sum of its bases) + i ticks."""

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        table = placement_table(probe, placements)
        return (10 * table.sum(axis=1)[:, None] + np.arange(probe.intervals))[warmup:]


@pytest.mark.parametrize(("block", "warmup"), [(1, 2), (7, 150), (1000, 0)])
def test_rows_come_back_in_the_order_of_the_placements(block: int, warmup: int) -> None:
    placed: Placements = {A: np.arange(100), B: np.arange(100) * 1000}
    rng = np.random.default_rng(3)
    one, two = run_interleaved(Interleaved(), [ONE, TWO], placed, rng, block=block, warmup=warmup)
    assert one.tolist() == [[10 * n] for n in range(100)]
    assert two.tolist() == [[10 * 1001 * n, 10 * 1001 * n + 1] for n in range(100)]


# ---- names --------------------------------------------------------------------------------------------------------


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("foreign_machine")
    vars(module).update(telling=BareMachine, torn=lambda cpu, seed: "no machine", number=3)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_a_factory_is_opened_by_module_and_name(plugin: ModuleType) -> None:
    machine = open_machine("foreign_machine:telling", cpu=5, seed=9)
    assert isinstance(machine, BareMachine)
    assert isinstance(machine, Machine)
    assert machine.arguments == {"cpu": 5, "seed": 9}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonsense", "unknown machine 'nonsense'; use native"),
        ("no_such_module:factory", "'no_such_module:factory' can't be opened: ModuleNotFoundError"),
        ("foreign_machine:missing", r"can't be opened: .* has no attribute 'missing'"),
        ("subprocess:run", "can't be opened: .* unexpected keyword"),
        ("foreign_machine:", "can't be opened"),
    ],
)
def test_names_that_lead_nowhere(plugin: ModuleType, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        open_machine(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["os:abort", "os:system", "builtins:print"])
def test_what_takes_no_cpu_and_seed_is_not_called(name: str) -> None:
    """The name may come from a result file that another program wrote."""
    with pytest.raises(UsageError, match="can't be opened: TypeError"):
        open_machine(name)
