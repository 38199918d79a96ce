"""A ReFrame test whose performance variables are findings, and whose limits come from a comparison of a fleet.

    from setebench.integrations.reframe import SetebenchTest

    @rfm.simple_test
    class node_latency(SetebenchTest):
        valid_systems = ["*"]
        valid_prog_environs = ["*"]
        scenario = "latency"
        fleet_file = "fleet.json"     # setebench fleet compare results -o fleet.json

The sanity check judges each answer: numbers by the prediction interval of one run of another healthy node.
"""

from __future__ import annotations

import os
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_before, sanity_function, variable

from setebench import store
from setebench.errors import UsageError
from setebench.fleet import comparison
from setebench.results import Document, Outcome

RESULT = "setebench.json"


class SetebenchTest(rfm.RunOnlyRegressionTest):
    """Runs one scenario, or `characterize`, on a node.

    `scenario`, `machine`, `seed` and `fast` are those of the command. `fleet_file` is the JSON of `setebench fleet
    compare`, relative to the test's file; without it nothing is judged. `false_alarm` is the
    probability that any parameter of any node of that fleet fails where all are healthy."""

    scenario = variable(str, value="latency")
    machine = variable(str, value="native")
    seed = variable(int, value=1)
    fast = variable(bool, value=False)
    fleet_file = variable(str, value="")
    false_alarm = variable(float, value=comparison.ALARM)

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
        """There is a result, and it is as usual."""
        try:
            document = self._result()
        except UsageError as error:
            return sn.assert_true(False, msg=str(error))
        usual = comparison.read(os.path.join(self.prefix, self.fleet_file), self.false_alarm) if self.fleet_file else {}
        lines = comparison.outside(document, usual)
        return sn.assert_false(lines, msg="; ".join(lines))

    @run_before("performance")
    def report(self) -> None:
        """A performance variable for each number that was measured."""
        for finding in self._result().findings:
            if finding.number is not None and finding.outcome is Outcome.MEASURED:
                shown = sn.make_performance_function(lambda value=finding.number: value, finding.unit or "1")
                self.perf_variables[finding.parameter] = shown

    def _result(self) -> Document:
        return store.load(os.path.join(self.stagedir, RESULT))
