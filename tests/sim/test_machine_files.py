"""Machine files: what is shipped loads, what is written loads back, and what is wrong gets one clear line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from setebench.cli.main import setebench
from setebench.errors import UsageError
from setebench.sim import spec
from setebench.sim.files import loader
from setebench.sim.files.dump import dump
from setebench.sim.random.machine import random_machine
from setebench.sim.spec.fields import PREFETCHERS
from setebench.sim.truth.parameters import truth

DOCS = Path(__file__).resolve().parents[2] / "docs" / "machine-files.md"
TABLES = [each for each in vars(spec).values() if isinstance(each, type) and issubclass(each, spec.Table)]
TABLES = [each for each in TABLES if each not in (spec.Table, spec.Prefetcher, *PREFETCHERS)]
NAMES = [name for name, _ in loader.shipped()]
(TINY,) = re.findall(r"(?ms)^```toml\n(.*?)^```$", DOCS.read_text(encoding="utf-8"))


def refused(text: str) -> str:
    """The message for a file of this text; always one line of bearable length."""
    with pytest.raises(UsageError) as caught:
        loader.parse(text, "m.toml")
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 700
    return message


def run(*arguments: str) -> Result:
    return CliRunner().invoke(setebench, ["sim", *arguments])


# -- what is shipped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_machine_survives_being_written(name: str) -> None:
    machine = loader.load(name)
    assert machine.name == name
    assert loader.parse(dump(machine), "again") == machine


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_file_names_the_source_of_every_value(name: str) -> None:
    for line in loader.presets()[name].read_text().splitlines():
        if " = " in line and not line.startswith(("name", "description", "#")):
            assert re.search(r"\S  # \S", line), line


# -- names and paths ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nope", "", "random:", "random:-1", "random:" + "9" * 30, "a\nb"])
def test_an_unknown_name_gets_one_line(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        loader.load(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "missing required field `name`"),
        (b"name = '\xff'\n", "not UTF-8"),
        (b"#" * (loader.MOST_BYTES + 1), "larger than"),
        (b"a = " + b"[" * 900 + b"]" * 900, "longer than|nested too deeply"),
        (b"\n\nname == 3\n", "not TOML: .*line 3, column 7"),
    ],
)
def test_hostile_content_gets_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "m.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        loader.load(str(path))
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


# -- messages ----------------------------------------------------------------------------------------------------------

MISTAKES = [
    ("ways = 4", "ways = 40", "levels[0].ways: Expected `int` <= 32"),
    ("ways = 4", "way = 4", "levels[0].way: Object contains unknown field `way`"),
    ("sets = 64", "sets = 63", "levels[0].sets: 63 is no power of two, as level 1 needs"),
    ("latency_cycles = 15", "latency_cycles = nan", "levels[1].latency_cycles: Expected `float` >= 0.25"),
    ("latency_cycles = 180", "latency_cycles = 20", "memory.latency_cycles: 20 less spread_cycles"),
    ('inclusion = "inclusive"', 'inclusion = "both"', "levels[1].inclusion: Invalid enum value 'both'"),
    ('kind = "stream"', 'kind = "streamer"', "prefetchers[0].kind: Invalid value 'streamer'"),
    ("max_distance = 8", "trigger_at_page_edge = [1]", "prefetchers[0].trigger_at_page_edge: needs four numbers"),
    ("cores = 2", "access_sizes = [16]", "core.access_sizes: 8 must be among them"),
    ("[memory]", "[coherence]\ndistance_cycles = [[0]]\n[memory]", "coherence.distance_cycles: must have 2 rows"),
    ('description = "a', 'description = "\\u0007a', "description: "),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_a_mistake_is_named_with_its_field(old: str, new: str, said: str) -> None:
    assert old in TINY
    assert refused(TINY.replace(old, new, 1)).startswith(f"m.toml: {said}")


# -- schema, docs ------------------------------------------------------------------------------------------------------


def test_the_schema_explains_every_field() -> None:
    tables = json.loads(run("schema").stdout)["$defs"]
    assert {each.__name__ for each in (*TABLES, *PREFETCHERS)} == set(tables)
    for table in tables.values():
        assert table["description"]
        for name, field in table["properties"].items():
            assert field.get("description") or name == "kind", (table["title"], name)
            bounds = {"minimum", "maximum"} <= set(field) or "enum" in field
            assert bounds or field.get("type") not in ("integer", "number"), (table["title"], name)


def test_the_example_of_the_page_is_true() -> None:
    found = {finding.parameter: finding.value for finding in truth(loader.parse(TINY, "tiny.toml"))}
    assert found["latency.l2"] == 15
    assert found["mshr.l1.prefetch"] == 4
    assert found["mshr.l1.demand"] == 1
    assert found["prefetcher.l2.stream.max_distance"] == 8
    said = refused(TINY.replace("ways = 4", "ways = 40")).replace("m.toml", "tiny.toml")
    assert f"    {said}\n" in DOCS.read_text(encoding="utf-8")


def test_levels_in_slices_are_that_many_sets_by_a_hash() -> None:
    sliced = loader.parse(TINY.replace("sets = 256", "sets = 256\nslices = 3", 1), "m.toml").levels[1]
    assert (sliced.sets, sliced.hashed_index) == (768, True)
    assert loader.parse(TINY.replace("ways = 8", "ways = 8\nslices = 1", 1), "m.toml") == loader.parse(TINY, "m.toml")
    assert "levels[1].slices" in refused(TINY.replace("ways = 8", 'ways = 8\nslices = "x"', 1))


# -- the commands ------------------------------------------------------------------------------------------------------


def test_list_and_show() -> None:
    listed = run("list")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in [*NAMES, "random:SEED"])
    assert run("show", "knc").stdout == loader.presets()["knc"].read_text()
    assert loader.parse(run("show", "random:5").stdout, "five") == random_machine(5)


@pytest.mark.parametrize("line", ["show nope", "truth missing.toml"])
def test_bad_use_ends_with_status_2_and_says_why(line: str) -> None:
    result = run(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.strip() and "Traceback" not in result.stderr
