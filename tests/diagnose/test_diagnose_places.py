"""Samples to functions: symbol tables, mappings, profiles; the hybrid of counters and samples; the timeline's plot."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from matplotlib import colors
from timelines import BANDWIDTH_BOUND, timeline

from setebench.diagnose.document import evidence, spots
from setebench.diagnose.figures import Basis, Figures
from setebench.diagnose.records import Hit, Timeline
from setebench.diagnose.samples import places
from setebench.report.plots.plot import encode
from setebench.report.plots.timeline import timeline_figure

SOURCE = """int inner(int x) { return 3 * x; }
int outer(int x) { return inner(x) + 1; }
int main(void) { return outer(0); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "small.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O0", "-o", folder / "small", folder / "small.c"], check=True)
    return folder / "small"


def starts(program: Path) -> dict[str, int]:
    """Addresses of functions as binutils list them; in a file linked as usual code lies at its file offset."""
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {words[2]: int(words[0], 16) for line in listed.splitlines() if len(words := line.split()) == 3}


def test_functions_and_lines_are_those_of_the_source(program: Path) -> None:
    known, path = starts(program), str(program)
    wanted = {(path, known[name] + byte): name for name in ("inner", "outer", "main") for byte in (0, 5)}
    found = places([*wanted, (path, 1 << 40), ("/no/such/file", 0)])
    assert {at: function for at, (function, _) in found.items()} == wanted
    assert found[path, known["outer"]][1] == "small.c:2"
    assert places(wanted, program.stat().st_ctime - 1) == {}  # it changed since then: names of other code


def two_phases() -> Timeline:
    """Ten intervals of `solve`, which waits for memory, then ten of `write`, which does not."""
    whole = timeline(BANDWIDTH_BOUND, wobble=0)
    hits = tuple(
        Hit(interval=number, thread=1, samples=20, seconds=0.1, function=("solve", "write")[number // 10], object="p")
        for number in range(20)
    )
    return msgspec.structs.replace(whole, hits=hits)


def test_waiting_is_laid_to_the_functions_of_the_intervals_that_wait() -> None:
    observed = two_phases()
    listed = spots(observed, [10.0] * 10 + [90.0] * 10)
    assert [(spot["function"], spot["fraction"]) for spot in listed] == [("write", 0.9), ("solve", pytest.approx(0.1))]
    assert [spot["function"] for spot in spots(observed, [1.0] * 10 + [0.0] * 10)] == ["solve"]
    assert spots(observed, [None] * 20) == []


def shown(observed: Timeline) -> dict[str, object]:
    basis = Basis(saturation_cycles=300.0)
    each = [Figures([row], basis) for row in observed.intervals]
    return {"diagnose": msgspec.to_builtins(evidence(observed, each, basis))}


def test_the_plot_has_a_panel_for_each_thing_known_with_units_and_no_colours() -> None:
    figure = timeline_figure(shown(two_phases()))
    panels = ["cycles (%)", "CPUs at work", "latency (cycles)", "memory (GB/s)", "events per second"]
    assert [axes.get_ylabel() for axes in figure.axes] == panels
    assert figure.axes[-1].get_xlabel().endswith("(s)") and all(axes.get_legend() for axes in figure.axes)
    for axes in figure.axes:
        for patch in axes.patches:
            red, green, blue, _ = colors.to_rgba(patch.get_facecolor())
            assert red == green == blue
    assert re.search(rb"<svg", encode(figure, "svg"))
