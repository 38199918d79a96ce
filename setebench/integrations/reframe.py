"""A ReFrame test whose performance variables are findings, and whose references come from a comparison of a fleet.

    from setebench.integrations.reframe import SetebenchTest

    @rfm.simple_test
    class node_latency(SetebenchTest):
        valid_systems = ["*"]
        valid_prog_environs = ["*"]
        scenario = "latency"
        fleet_file = "fleet.json"     # setebench fleet compare results -o fleet.json

References are prediction intervals of one run of another healthy node. ReFrame takes thresholds as fractions of the
reference, so parameters whose limits reach 0, and answers that are no numbers, are judged with the sanity check.
"""

from __future__ import annotations

import os
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_before, sanity_function, variable

from setebench import store
from setebench.errors import UsageError
from setebench.fleet import limits

RESULT = "setebench.json"


class SetebenchTest(rfm.RunOnlyRegressionTest):
    """Runs one scenario, or `characterize`, on a node.

    `scenario`, `machine`, `seed` and `fast` are those of the command. `fleet_file` is the JSON of `setebench fleet
    compare`, relative to the test's file; without it there are performance variables but no references. `false_alarm`
    is the probability that any parameter of any node of that fleet fails where all are healthy."""

    scenario = variable(str, value="latency")
    machine = variable(str, value="native")
    seed = variable(int, value=1)
    fast = variable(bool, value=False)
    fleet_file = variable(str, value="")
    false_alarm = variable(float, value=limits.FALSE_ALARM)

    executable = "setebench"
    num_tasks = 1
    exclusive_access = True

    @run_before("run")
    def ask(self) -> None:
        """The command's options; the result is kept with ReFrame's output."""
        options = [self.scenario, "--machine", self.machine, "--seed", str(self.seed), "--quiet"]
        options += ["--fast"] if self.fast else []
        self.executable_opts = [*options, "--output", RESULT, "--force"]
        self.keep_files = [RESULT]

    @sanity_function
    def is_healthy(self) -> Any:
        """There is a result, and what ReFrame's references can't judge is as usual."""
        try:
            document = store.load(os.path.join(self.stagedir, RESULT))
        except UsageError as error:
            return sn.assert_true(False, msg=str(error))
        others = {name: each for name, each in self._limits().items() if not _by_fraction(each)}
        lines = limits.outside(document, others)
        return sn.assert_false(lines, msg="; ".join(lines))

    @run_before("performance")
    def report(self) -> None:
        """A performance variable for each number that was measured, with its reference where there is one."""
        usual = self._limits()
        references: dict[str, Any] = {}
        for finding in store.load(os.path.join(self.stagedir, RESULT)).findings:
            number = limits.number_of(finding)
            if number is None:
                continue
            unit = finding.unit or "1"
            name = finding.parameter
            self.perf_variables[name] = sn.make_performance_function(lambda value=number: value, unit)
            limit = usual.get(name)
            if limit is not None and _by_fraction(limit) and limit.unit == finding.unit:
                references[name] = reference(limit, unit)
        self.reference = {"*": references}

    def _limits(self) -> dict[str, limits.Limits]:
        if not self.fleet_file:
            return {}
        return limits.read(os.path.join(self.prefix, self.fleet_file), self.false_alarm)


def _by_fraction(limit: limits.Limits) -> bool:
    """Whether ReFrame's reference can hold it: a number whose limits lie on one side of 0."""
    return not isinstance(limit.centre, str) and (limit.low > 0 or limit.high < 0)


def reference(limit: limits.Limits, unit: str) -> tuple[float, float, float, str]:
    """A performance reference: the usual value, and how far below and above a healthy node may be, as fractions."""
    centre = float(limit.centre)
    return (centre, (limit.low - centre) / abs(centre), (limit.high - centre) / abs(centre), unit)
