"""The HTML report: what is in it, and that nothing of a document's text gets out of its place.

`golden/report.html` is a page without plots, whose drawings depend on matplotlib; SETEBENCH_GOLDEN=write renews it."""

from __future__ import annotations

import base64
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from test_table import HOSTILE, make_document

from setebench import references, store
from setebench.cli.main import setebench
from setebench.report import web
from setebench.report.plots import plot
from setebench.results import Document, Finding, MachineRecord, Outcome

GOLDEN = Path(__file__).parent / "golden"
MARKUP = "</td></script><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7 * 7 }} \" ' & \x1b[31m \u202e"
VOID = {"meta", "link", "br", "img"}

SWEEP = {
    "size_bytes": [4096, 8192, 16384, 32768, 65536, 131072],
    "cycles": [4.0, 4.0, 4.0, 9.0, 14.0, 14.0],
    "boundaries_bytes": [32768],
    "levels": {"l1": 4.0, "l2": 14.0},
}


def hostile_document() -> Document:
    document = make_document(
        [
            Finding(parameter=MARKUP, value=MARKUP, unit=MARKUP, method=MARKUP),
            Finding(parameter="latency.l1", outcome=Outcome.UNRESOLVED, reason=MARKUP, method=HOSTILE),
        ],
        name=MARKUP,
    )
    facts = {MARKUP: [MARKUP], "cpus": MARKUP}
    environment = {"cpu": {"name": MARKUP, "family": MARKUP}, "hypervisor": {"name": MARKUP}}
    return msgspec.structs.replace(
        document,
        machine=MachineRecord(kind=MARKUP, name=MARKUP, facts=facts, environment=environment),
        settings={"scenario": MARKUP, "machine": MARKUP, MARKUP: {MARKUP: MARKUP}},
        evidence={"steps": [{"scenario": MARKUP, "state": "failed", "reason": MARKUP}]},
        started=MARKUP,
    )


class Reader(HTMLParser):
    """Checks that tags nest and collects them with their attributes, and the text by the tag that it is in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append((self.open[-1] if self.open else "", data))


def test_golden() -> None:
    text = web.page([web.entry("a.json", make_document())])
    if os.environ.get("SETEBENCH_GOLDEN") == "write":
        (GOLDEN / "report.html").write_text(text, encoding="utf-8", newline="")
    assert text == (GOLDEN / "report.html").read_bytes().decode()


def test_plots_are_inline_and_described() -> None:
    drawn = web.draw("latency", plot.sweep_figure({"sweep": SWEEP}))
    others = {"published for sandybridge": references.document("sandybridge")}
    plots = [drawn, web.Plot(name="lost", problem="nothing to draw")]
    page = Reader(web.page([web.entry("a", make_document(), plots, others)]))
    (drawing,) = (attributes for tag, attributes in page.tags if tag == "img")
    assert "Load-to-use latency over the working set" in str(drawing["alt"])
    assert "<svg " in _decoded(str(drawing["src"]))
    downloads = {a["download"]: str(a["href"]) for tag, a in page.tags if tag == "a" and "download" in a}
    assert json.loads(_decoded(downloads["result-1.json"]))["schema"] == 1
    assert any("lost: nothing to draw" in data for _, data in page.text)
    assert {"script", "iframe", "object", "embed", "form"}.isdisjoint(tag for tag, _ in page.tags)
    loaded = (str(own.get(name) or "#") for _, own in page.tags for name in ("src", "href", "xlink:href", "action"))
    assert all(each.startswith(("#", "data:")) for each in loaded), "nothing is loaded from anywhere"


def _decoded(address: str) -> str:
    return base64.b64decode(address.partition("base64,")[2]).decode()


def test_hostile_text_stays_text() -> None:
    entry = web.entry(MARKUP, hostile_document(), [web.Plot(name=MARKUP, problem=MARKUP)])
    text = web.page([entry, entry])
    page = Reader(text)
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.tags)
    assert "49" not in re.findall(r"\{\{|49", text.replace("{{ 7 * 7 }}", ""))
    assert "\x1b" not in text and "\u202e" not in text
    assert not any("onerror" in attributes for _, attributes in page.tags)


@pytest.fixture
def result(tmp_path: Path) -> str:
    document = make_document()
    evidence, settings = {**document.evidence, "sweep": SWEEP}, {**document.settings, "scenario": "latency"}
    store.save(msgspec.structs.replace(document, evidence=evidence, settings=settings), tmp_path / "a.json")
    return str(tmp_path / "a.json")


def test_a_report_of_several_results(result: str, tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    words = ["report", result, result, "reference:zen5", "-o", str(target)]
    assert CliRunner().invoke(setebench, words).exit_code == 0
    page = Reader(target.read_text())
    assert sum(tag == "img" for tag, _ in page.tags) == 2
    assert [data for tag, data in page.text if tag == "h2"] == [result, result, "reference:zen5"]
