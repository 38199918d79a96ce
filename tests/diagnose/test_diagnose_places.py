"""Samples to functions: symbol tables, mappings, profiles; the hybrid of counters and samples; the timeline's plot."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import colors
from timelines import BANDWIDTH_BOUND, CHASE, timeline, without

from setebench.diagnose.document import evidence, spots
from setebench.diagnose.figures import Basis, Calibration, Figures
from setebench.diagnose.records import Hit, Place, Timeline
from setebench.diagnose.samples import Profile
from setebench.diagnose.symbols import symbols
from setebench.native.perf.sampling import Mapped, Record, Renamed, SampleRecord, Started
from setebench.report.plots.plot import alt_text, encode
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


def test_names_are_those_that_binutils_list(program: Path) -> None:
    table, known = symbols(str(program)), starts(program)
    assert table is not None
    for name in ("inner", "outer", "main"):
        assert [table.name(known[name] + byte) for byte in (0, 5)] == [name, name]
        assert table.address(known[name]) == known[name]
    assert table.name(known["inner"] - 1) != "inner" and table.name(1 << 40) is None


@settings(max_examples=60)
@given(data=st.data())
def test_damaged_files_have_no_names_and_break_nothing(
    program: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(program.read_bytes())
    for _ in range(data.draw(st.integers(1, 12))):
        raw[data.draw(st.integers(0, 200) | st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    damaged = tmp_path_factory.mktemp("damaged") / "file"
    damaged.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    table = symbols(str(damaged))
    assert table is None or isinstance(table.name(4200), str | None)


# -- profiles -----------------------------------------------------------------------------------------------------


def sample(ip: int, time: int, pid: int = 5, tid: int = 5) -> SampleRecord:
    return SampleRecord(pid=pid, tid=tid, time=time, ip=ip)


def mapped(program: Path, pid: int = 5, time: int = 0, start: int = 0x10000) -> Mapped:
    end = start + program.stat().st_size
    return Mapped(time=time, pid=pid, start=start, end=end, offset=0, path=str(program))


def test_samples_are_named_by_thread_function_and_interval(program: Path) -> None:
    known = {name: 0x10000 + address for name, address in starts(program).items()}
    records: list[Record] = [
        sample(known["outer"], 2_000_000_100),
        sample(known["inner"], 1_000_000_000, tid=7),
        sample(known["inner"], 30, pid=6, tid=6),
        Started(pid=6, parent_pid=5, tid=6, parent_tid=5, time=20),
        mapped(program, time=1),
        Renamed(pid=5, tid=7, name="helper", of_exec=False, time=2),
        sample(7, 40),
    ]
    profile = Profile(begin_ns=0, seconds_each=0.01)
    profile.add_all(records)
    hits = {(hit.interval, hit.thread, hit.place.function): hit.seconds for hit in profile.hits([1.5, 2.0])}
    assert hits == {
        (0, 5, "[unknown]"): 0.01,
        (0, 6, "inner"): 0.01,
        (0, 7, "inner"): 0.01,
        (1, 5, "outer"): 0.01,
    }
    assert profile.names[7] == "helper"


def test_a_file_that_was_replaced_while_the_program_ran_names_nothing(program: Path) -> None:
    """The program goes on in the old file: the new one's symbols would be those of other code."""
    ran = mapped(program)._replace(inode=program.stat().st_ino)
    rebuilt = program.with_name("rebuilt")
    rebuilt.write_bytes(program.read_bytes())

    def named() -> str:
        profile = Profile(begin_ns=0, seconds_each=0.01)
        profile.add_all([ran, sample(0x10000 + starts(program)["outer"], 10)])
        (hit,) = profile.hits([1.0])
        return hit.place.function

    assert named() == "outer"
    rebuilt.replace(program)
    assert named() == "[unknown]"


@pytest.mark.skipif(shutil.which("addr2line") is None, reason="binutils' addr2line is not installed")
def test_lines_come_from_debug_information(program: Path) -> None:
    profile = Profile(begin_ns=0, seconds_each=0.01)
    profile.add_all([mapped(program), sample(0x10000 + starts(program)["outer"], 10)])
    (hit,) = profile.hits([1.0])
    assert hit.place.line == "small.c:2"


# -- the hybrid ---------------------------------------------------------------------------------------------------


def two_phases() -> Timeline:
    """Ten intervals of `solve`, which waits for memory, then ten of `write`, which does not."""
    places = [
        Place(function=name, object="/bin/p", line=f"p.c:{number}") for number, name in enumerate(("solve", "write"))
    ]
    whole = timeline(BANDWIDTH_BOUND, wobble=0)
    hits = tuple(
        Hit(interval=number, thread=1, place=places[number // 10], samples=20, seconds=0.1) for number in range(20)
    )
    return msgspec.structs.replace(whole, hits=hits)


def test_waiting_is_laid_to_the_functions_of_the_intervals_that_wait() -> None:
    observed = two_phases()
    listed = spots(observed, [10.0] * 10 + [90.0] * 10)
    assert [(spot.function, spot.fraction) for spot in listed] == [("write", 0.9), ("solve", pytest.approx(0.1))]
    assert [spot.function for spot in spots(observed, [1.0] * 10 + [0.0] * 10)] == ["solve"]
    assert spots(observed, [None] * 20) == []


# -- the plot -----------------------------------------------------------------------------------------------------


def shown(observed: Timeline) -> dict[str, object]:
    basis = Basis(calibration=Calibration(saturation_cycles=300.0))
    each = [Figures([row], basis) for row in observed.intervals]
    return {"diagnose": msgspec.to_builtins(evidence(observed, each, basis))}


@pytest.mark.parametrize(
    ("observed", "panels"),
    [
        (two_phases(), ["cycles (%)", "CPUs at work", "latency (cycles)", "memory (GB/s)", "events per second"]),
        (
            msgspec.structs.replace(
                timeline(without(CHASE, "cycles", "mem_read", "mem_write", "l1d_inflight_sum")), hits=()
            ),
            ["CPUs at work", "events per second"],
        ),
    ],
)
def test_the_plot_has_a_panel_for_each_thing_known_with_units_and_no_colours(
    observed: Timeline, panels: list[str]
) -> None:
    figure = timeline_figure(shown(observed))
    assert [axes.get_ylabel() for axes in figure.axes] == panels
    assert figure.axes[-1].get_xlabel().endswith("(s)") and all(axes.get_legend() for axes in figure.axes)
    for axes in figure.axes:
        for patch in axes.patches:
            red, green, blue, _ = colors.to_rgba(patch.get_facecolor())
            assert red == green == blue
    assert re.search(rb"<svg", encode(figure, "svg", alt_text(figure)))
