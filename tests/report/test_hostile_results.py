"""Result files that are damaged, cut, or made to harm: refused in one line, or shown without a crash."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_table import make_document

from setebench import campaign, store
from setebench.cli import documents
from setebench.cli.main import setebench
from setebench.compare import compare
from setebench.errors import SetebenchError, UsageError
from setebench.export import export, formats
from setebench.report import comparison, web
from setebench.report.table import FORMS, render
from setebench.results import Document

WHOLE = json.loads(store.dumps(make_document()))
WHOLE["settings"] = {
    "scenario": "characterize",
    "machine": "native",
    "seed": 1,
    "cpu": None,
    "fast": False,
    "scenarios": ["latency"],
    "options": {},
}
WHOLE["machine"]["environment"] = {
    "cpu": {"vendor": "AuthenticAMD", "family": 26, "model": 2, "name": "EPYC", "stepping": 1},
    "hypervisor": {"name": "KVM"},
    "topology": {"caches": [{"level": 1, "type": "Data", "size_bytes": 49152, "ways": 12, "line_bytes": 64}]},
}
WHOLE["machine"]["facts"] = {
    **{"cpus": [0, 1], "siblings": [[0], [1]], "memory_bytes": 1 << 30, "ticks_per_second": 2e9},
    "nodes": [{"number": 0, "cpus": [0, 1]}, {"number": 1, "cpus": []}],
}
WHOLE["evidence"] = {
    "steps": [{"scenario": "latency", "state": "failed", "reason": "noise", "told": ["latency.l1"]}],
    "scenario.latency": {"sweep": {"size_bytes": [4096, 8192], "cycles": [4.0, 4.0], "levels": {"l1": 4.0}}},
    "cycles": {"cycles_per_ns": 4.0},
}

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**63, 2**64, -(2**70), 10**400, 1e308, -1e308, 5e-324, float("nan"), float("inf")]),
    st.text(max_size=8),
    st.sampled_from(["<script>", "\x1b[2J", "\u202e", "measured", "latency", "reference", "..", "\ud800"]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.just([[[[[]]]]]),
    st.just({"level": {}, "state": []}),
)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


PLACES = _places(WHOLE)[1:]


def _changed(place: tuple[Any, ...], value: Any, remove: bool) -> Any:
    tree = copy.deepcopy(WHOLE)
    holder = tree
    for key in place[:-1]:
        holder = holder[key]
    if remove:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return tree


def show_everywhere(document: Document) -> None:
    """Everything that reads a document; only a one-line refusal may come of it."""
    found = documents.chosen_references(document)
    for form in FORMS:
        assert render(document, form, references=found)
    drawn = documents.plots(document)
    assert "</html>" in web.page([web.entry("a", document, drawn, found)])
    both = compare([make_document(), document, document], ["a", "b", "c"])
    for form in comparison.FORMS:
        assert comparison.FORMS[form](both)
    for read in (campaign.plan_of, campaign.steps_of):
        with contextlib.suppress(UsageError):
            read(document)
    for name in formats():
        with contextlib.suppress(SetebenchError):
            assert export(document, name)


def _load(path: Path, data: bytes) -> Document | None:
    path.write_bytes(data)
    try:
        return store.load(path)
    except UsageError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
        return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(place=st.sampled_from(PLACES), value=ODD, remove=st.booleans())
def test_any_one_place_may_hold_anything(tmp_path: Path, place: tuple[Any, ...], value: Any, remove: bool) -> None:
    text = json.dumps(_changed(place, value, remove)).encode(errors="surrogatepass")
    document = _load(tmp_path / "a.json", text)
    if document is not None:
        show_everywhere(document)


def _texts(tree: Any, text: str) -> Any:
    """The tree with `text` behind every text in it that may be any."""
    if isinstance(tree, dict):
        fixed = ("outcome", "state", "unit", "scenario")
        return {key: each if key in fixed else _texts(each, text) for key, each in tree.items()}
    if isinstance(tree, list):
        return [_texts(each, text) for each in tree]
    return f"{tree}{text}" if isinstance(tree, str) else tree


@pytest.mark.parametrize(
    "text",
    ["\x1b]8;;evil\x07", "\r\x1b[A", "\x9b31m", "\u202e\u2066", "\x00\x7f", "\u2028\u200f"],
)
def test_no_text_reaches_a_terminal_unseen(tmp_path: Path, text: str) -> None:
    document = _load(tmp_path / "a.json", json.dumps(_texts(WHOLE, text)).encode())
    assert document is not None
    shown = [render(document, form) for form in FORMS if form != "json"]
    shown += [comparison.FORMS["table"](compare([make_document(), document], ["a", f"b{text}"]))]
    for each in shown:
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u2066\u200f]", each), each[:2000]


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema": 1, "evidence": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[" * 5_000_000,
        b'{"schema": 99999}',
        gzip.compress(b" " * 10_000_000, mtime=0),
        b"PK\x03\x04",
    ],
)
def test_what_is_no_result_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    commands = (["show"], ["report"], ["compare", str(path)], ["characterize", "--resume"])
    for command in commands:
        reported = CliRunner().invoke(setebench, [*command, str(path)])
        assert reported.exit_code == 2 and reported.stdout == "" and "Traceback" not in reported.output
        assert len(reported.stderr.strip().splitlines()) == 1 and len(reported.stderr) < 600
