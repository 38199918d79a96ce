"""Who may import whom, and who may print or exit: the one-way flow of docs/architecture.md, held against the source."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from graphlib import TopologicalSorter

import pytest
from source_imports import ENGINE, ROOT, SOURCES, imports, named, package_of, tree

STANDALONE = {"msgspec", "numba", "numpy", "scipy"}
"""What inference may import beside the standard library, itself, and the findings that it yields."""


def room(module: str) -> str:
    """The package below setebench that a module belongs to, or the module itself where it lies beside them."""
    return module.split(".")[1] if module.count(".") else "setebench"


def _in(*rooms: str) -> list[str]:
    return [name for name in SOURCES if room(name) in rooms]


def _rooms_of(name: str) -> set[str]:
    return {room(imported) for imported in imports(name) if imported.startswith("setebench.")}


# -- the rules that carry the design ------------------------------------------------------------------------------


def test_inference_knows_numbers_and_findings_only() -> None:
    foreign = {
        imported
        for name in _in("stats")
        for imported in imports(name)
        if imported.split(".")[0] not in STANDALONE | sys.stdlib_module_names
        and room(imported) not in ("results", "stats")
    }
    assert _in("stats") and foreign == set()


@pytest.mark.parametrize(
    ("imported", "importers"),
    [
        (ENGINE, {"native"}),
        ("setebench.sim", {"machine", "score", "truth", "cli"}),  # truth and findings only meet in the score
        ("setebench.sim.inspect", set()),
        ("setebench.references", {"cli"}),  # nothing that measures or infers looks up what it is to find
    ],
)
def test_who_imports(imported: str, importers: set[str]) -> None:
    inside = f"{imported}."
    asking = {room(name) for name in SOURCES if any(f"{each}.".startswith(inside) for each in imports(name))}
    assert asking - {room(imported)} == importers - {room(imported)}


def test_no_module_needs_itself_to_be_imported() -> None:
    """Imports at the top of modules form no circle; those inside functions wait until they are called."""
    at_top = {
        name: {
            imported for node in tree(name).body for imported in named(node, package_of(name)) if imported in SOURCES
        }
        for name in SOURCES
    }
    assert len(list(TopologicalSorter(at_top).static_order())) >= len(SOURCES)


# -- the table in docs/architecture.md ----------------------------------------------------------------------------


@cache
def documented() -> dict[str, set[str]]:
    """Room -> rooms that it may import, as the table `room | may import` of docs/architecture.md says."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = re.search(r"^\| room \| may import .*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, "docs/architecture.md has no table of rooms"
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[1].splitlines()]
    return {re.findall(r"`(\w+)`", row[0])[0]: set(re.findall(r"`(\w+)`", row[1])) for row in rows}


@pytest.mark.parametrize(
    ("importer", "forbidden"),
    [
        ("scenarios", {"native", "sim", "cli", "score", "judge", "host"}),
        ("sim", {"scenarios", "native", "cli", "score", "judge", "experiments", "host", "stats"}),
        ("native", {"scenarios", "sim", "cli", "report", "score", "judge"}),
        ("report", {"scenarios", "native", "sim", "cli", "machine"}),
        ("host", {"scenarios", "native", "sim", "cli"}),
    ],
)
def test_the_table_keeps_the_rules_that_carry_the_design(importer: str, forbidden: set[str]) -> None:
    assert documented()[importer].isdisjoint(forbidden)


def test_a_room_imports_what_the_table_says_and_no_more() -> None:
    rooms = {room(name) for name in SOURCES} - {"setebench", "__main__"}
    used = {each: {other for name in _in(each) for other in _rooms_of(name)} - {each} for each in rooms}
    assert used == documented()


# -- printing and exiting -----------------------------------------------------------------------------------------

ANNOUNCES = {"setebench.sim.compiled", "setebench.host.lock"}
"""May write one line to stderr: that the simulator is being compiled, or another measurement waited for, which nobody
above them can foresee."""

FORKS = {"setebench.native.perf.program.run", "setebench.native.registers.prefetchers"}
"""May end the child that it forks, which must not come back into our code."""

ENDINGS = {"print", "sys.exit", "os._exit", "exit", "quit", "SystemExit", "sys.stdout.write", "sys.stderr.write"}


def _prints(name: str) -> list[str]:
    calls = [ast.unparse(node) for node in ast.walk(tree(name)) if isinstance(node, ast.Call)]
    found = [call for call in calls if call.partition("(")[0] in ENDINGS]
    announced = [call for call in found if name in ANNOUNCES and call.endswith("file=sys.stderr)")]
    forked = [call for call in found if name in FORKS and call.startswith("os._exit(")]
    return [call for call in found if call not in (*announced, *forked)]


def test_only_the_command_line_prints_or_exits() -> None:
    calls = {name: _prints(name) for name in SOURCES if room(name) not in ("cli", "__main__")}
    assert {name: found for name, found in calls.items() if found} == {}
