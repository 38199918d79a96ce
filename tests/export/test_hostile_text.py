"""What anybody may have written into a result stays text: no format lets it be an option, a statement or a tag."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from known_results import bound, measured, plain_server, unresolved

from setebench.errors import SetebenchError
from setebench.export import export, formats
from setebench.results import Document, Tool

EVIL = (
    "x\n-wrapper sh,-c,touch${IFS}evil\n#",
    "x\r-wrapper sh,-c,touch${IFS}evil\r#",
    "x\n    size = __import__('os').system('touch evil')\n#",
    "x\n\x00evil\x1b[2J\x1b]0;evil\x07\x08\x7f",
    "x\v\f\x1c\x1d\x1e\x85\u2028\u2029evil = 1",
    "x\\",
    "x??/",
    "x */ int evil; /* //",
    "/*",
    "--> <evil/> <!-- ]]> -",
    '"evil"><evil/> &evil; \'',
    "'; touch evil; `touch evil` $(touch evil)",
    "\u202eevil\u2066\ufeff\u200b",
    "x\n[perf_model/evil]\nevil = 1",
    "x\nevil: !!python/object/apply:os.system ['touch evil']",
    "%s %n {evil} {{evil}}",
)
every_evil = pytest.mark.parametrize("evil", EVIL, ids=range(len(EVIL)))
every_format = pytest.mark.parametrize("name", formats())


def written(evil: str) -> Document:
    """A result with that text in every place that takes text."""
    server = plain_server()
    own = [
        msgspec.structs.replace(each, method=evil, unit=each.unit and f"{each.unit}{evil}") for each in server.findings
    ]
    own = [msgspec.structs.replace(each, reason=evil) if each.reason else each for each in own]
    own += [measured(f"prefetcher.l{level}.{evil}.present", True, "bool") for level in (1, 2)]
    own += [measured("cache.l1.replacement", evil, evil), unresolved("mshr.l3.demand", evil), bound(evil, 3.0, evil)]
    record = msgspec.structs.replace(
        server.machine,
        kind=evil,
        name=evil,
        facts={**server.machine.facts, "name": evil, evil: evil},
        environment={"cpu": {"vendor": evil, evil: evil}, evil: evil},
    )
    return msgspec.structs.replace(
        server, findings=own, machine=record, tool=Tool(name=evil, version=evil), started=evil, settings={evil: evil}
    )


def plain_lines(text: str, *marks: str) -> list[str]:
    """Lines, however they may be parted, that are no comment."""
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(marks)]


def of_json(text: str) -> Any:
    def numbers(members: list[tuple[str, Any]]) -> Any:
        return {key: each for key, each in members if key not in ("setebench", "general", "meta", "method")}

    return json.loads(text, object_pairs_hook=numbers)


def of_xml(text: str) -> Any:
    def shape(element: ElementTree.Element) -> Any:
        own = {key: each for key, each in element.attrib.items() if key != "model"}
        return element.tag, own, [shape(each) for each in element if each.tag != "info"]

    return shape(ElementTree.fromstring(text))


def without_names(text: str) -> list[str]:
    return [line for line in plain_lines(text, "#") if not line.startswith("model ")]


MEANT: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("gcc", "glibc", "openblas", "sniper", "gem5"), lambda text: plain_lines(text, "#")),
    **dict.fromkeys(("llvm", "blis", "c"), lambda text: plain_lines(text, "//")),
    "kerncraft": without_names,
    **dict.fromkeys(("hwloc", "sys-sage"), of_xml),
    **dict.fromkeys(("champsim", "mt4g"), of_json),
}
"""What the readers of a format take from it."""


def reference() -> Document:
    """The same findings with plain texts."""
    return written("plain")


@every_format
@every_evil
def test_text_changes_nothing_that_a_tool_reads(name: str, evil: str) -> None:
    text = export(written(evil), name)
    assert MEANT[name](text) and MEANT[name](text) == MEANT[name](export(reference(), name))
    assert all(line.isprintable() for line in text.split("\n"))


@every_evil
def test_the_documented_commands_run_nothing_else(evil: str, tmp_path: Path) -> None:
    (tmp_path / "here.params").write_text(export(written(evil), "gcc"))
    (tmp_path / "sum.c").write_text("int main(void) { return 0; }\n")
    script = "gcc -O2 -fprefetch-loop-arrays $(sed '/^#/d' here.params) -c sum.c"
    if shutil.which("gcc"):
        subprocess.run(script, shell=True, cwd=tmp_path, check=True)
    for name in ("glibc", "openblas"):
        (tmp_path / name).write_text(export(written(evil), name))
        subprocess.run(["sh", "-eu", name], cwd=tmp_path, check=True)
    found: dict[str, Any] = {}
    objects = ModuleType("m5.objects")
    for each in ("Cache", "X86TLB", "StridePrefetcher", "TaggedPrefetcher"):
        setattr(objects, each, type(each, (), {"__init__": lambda self, **given: None}))
    source = export(written(evil), "gem5").replace("from m5.objects import *", "")
    exec(compile(source, "machine.py", "exec"), vars(objects), found)
    assert all(each.startswith("Setebench") for each in found)
    assert not (tmp_path / "evil").exists()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("name", ["c", "llvm", "blis"])
def test_c_goes_on_behind_every_comment(name: str, tmp_path: Path) -> None:
    texts = [export(written(evil), name) for evil in EVIL]
    command = ["gcc", "-E", "-P", "-dD", "-trigraphs", "-Wall", "-Werror", "-xc", "-", "-undef", "-nostdinc"]
    read = [
        subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout
        for text in [*texts, export(reference(), name)]
    ]
    assert len(set(read)) == 1 and "evil" not in read[0]


# -- values -------------------------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = ("8 -wrapper sh", "__import__('os')", True, False, -1, 0, 1e-300, 1e300, [1], [])


@every_format
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_only_numbers_are_numbers(name: str, value: Any) -> None:
    """A finding without a unit may say anything; what is no number that a machine can have is left out."""
    findings = [
        msgspec.structs.replace(each, value=value, unit="", low=None, high=None) if each.value is not None else each
        for each in plain_server().findings
    ]
    try:
        text = export(msgspec.structs.replace(plain_server(), findings=findings), name)
    except SetebenchError as error:
        assert "says nothing" in str(error)
        return
    assert "wrapper" not in text and "__import__" not in text
    assert not re.search(r"\b(nan|inf|None|Infinity)\b", re.sub(r"//.*|#.*", "", text))


@every_format
@pytest.mark.parametrize(
    "facts", [{"cpus": [10**12]}, {"siblings": 3}, {"memory_bytes": "1; evil"}, {"ticks_per_second": 0}], ids=repr
)
def test_damaged_facts_are_refused(name: str, facts: dict[str, Any]) -> None:
    server = plain_server()
    record = msgspec.structs.replace(server.machine, facts={**server.machine.facts, **facts})
    try:
        text = export(msgspec.structs.replace(server, machine=record), name)
    except SetebenchError as error:
        assert "damaged" in str(error) and "\n" not in str(error)
        return
    raise AssertionError(text)
