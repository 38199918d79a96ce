"""What each scenario reads of other questions' answers, held against what it says it needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest
from source_imports import SOURCES, named, package_of, tree

from setebench import registry
from setebench.scenario import CALIBRATED

READ_AS = {
    "step_ticks": "clock",
    "reference": "clock",
    "issue_pace": "issue_pace",
    "levels": "levels",
    "level_cycles": "levels",
}
"""By a field of `Context.calibration`: the name of what it answers."""

MEASURING = ("setebench.scenarios.", "setebench.experiments.", "setebench.loops.")
OWN = [name for name, entry in registry.catalogue().items() if entry.module.startswith(MEASURING[0])]

Definition = tuple[str, str]
"""A module, and a name that it defines at its top."""


@cache
def _defined(module: str) -> dict[str, ast.stmt]:
    """The statements of a module that define its names."""
    found: dict[str, ast.stmt] = {}
    for node in tree(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id: node for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


@cache
def _imported(module: str) -> dict[str, Definition]:
    """By the name under which it is used here: what a module imports of others, at its top or in functions. A module
    as a whole has no name in itself."""
    found = {}
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                only = ast.ImportFrom(module=node.module, names=[alias], level=node.level)
                (source,) = named(only, package_of(module))
                whole = source.endswith(f".{alias.name}") and source in SOURCES and alias.name not in _defined(source)
                found[alias.asname or alias.name] = (source, "" if whole else alias.name)
    return found


def _uses(module: str, name: str) -> Iterator[Definition]:
    """What a definition names of its own module and of others."""
    known = _imported(module)
    for node in ast.walk(_defined(module)[name]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            source, within = known[node.value.id]
            yield source, within or node.attr
        elif isinstance(node, ast.Name):
            yield known.get(node.id, (module, node.id))


def _reached(module: str) -> set[Definition]:
    """All definitions that a scenario comes to, of what measures."""
    found, left = set[Definition](), [(module, "SCENARIO")]
    while left:
        each = left.pop()
        if each in found or each[0] not in SOURCES or not each[0].startswith(MEASURING):
            continue
        if each[1] in _defined(each[0]):
            found.add(each)
            left += _uses(*each)
        elif each[1] in (elsewhere := _imported(each[0])):  # passed on
            left.append(elsewhere[each[1]])
    return found


def _reads(module: str, name: str) -> Iterator[str]:
    """Fields of a context's calibration that a definition reads, and `foundations`."""
    for node in ast.walk(_defined(module)[name]):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "calibration"
            and node.attr != "line_bytes"  # measured before anything is laid out: it can't come from elsewhere
        ):
            yield READ_AS[node.attr]
        elif isinstance(node, ast.Attribute) and node.attr == "foundations":
            yield node.attr


@pytest.mark.parametrize("name", OWN)
def test_a_scenario_names_the_answers_that_it_reads(name: str) -> None:
    entry = registry.catalogue()[name]
    scenario = entry.load()
    read = {field for definition in _reached(entry.module) for field in _reads(*definition)}
    assert set(scenario.needs) & set(CALIBRATED) == read - {"foundations"}
    assert bool(scenario.builds_on) == ("foundations" in read)


def test_needs_go_back_to_what_runs_earlier() -> None:
    scenarios = {name: registry.catalogue()[name].load() for name in OWN}
    needed = {(need, name) for name, scenario in scenarios.items() for need in scenario.builds_on}
    assert needed and all(scenarios[need].order < scenarios[name].order for need, name in needed)
