"""Scenarios asked of simulated machines: what they find, and what the judge says of it."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from typing import Any

from setebench.judge import Judgement
from setebench.registry import scenario
from setebench.results import Finding
from setebench.scenario import Context
from setebench.score import Task, judge_all, perform


def findings(name: str, context: Context) -> dict[str, Finding]:
    """What a scenario finds on the context's machine, which is closed then."""
    with closing(context.machine):
        return {finding.parameter: finding for finding in scenario(name).answer(context)}


@cache
def judged(name: str, machine: str, *prefixes: str, noise: str = "drawn") -> dict[str, Judgement]:
    """What the judge says of parameters that begin so; asked once for all tests of a file."""
    answer: Any = perform(Task(machine=machine, scenarios=(name,), noise=noise, seed=1, fast=True))
    assert answer.failures == []
    return {judgement.parameter: judgement for judgement in judge_all([answer], lambda name: name.startswith(prefixes))}
