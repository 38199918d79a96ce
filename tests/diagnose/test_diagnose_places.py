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

from setebench.diagnose.analysis import Basis, Calibration, Figures
from setebench.diagnose.evidence import evidence
from setebench.diagnose.observing.data import data_object
from setebench.diagnose.observing.memory import Mapping, Memory, mapped_now
from setebench.diagnose.observing.profile import Profile
from setebench.diagnose.observing.symbols import symbols
from setebench.diagnose.places import hot, suffering, touched, waiting
from setebench.diagnose.records import Hit, Load, Place, Timeline
from setebench.native.perf.sampling import DataSource, Mapped, Record, Renamed, SampleRecord, Started
from setebench.native.perf.sampling.data_source import Weights
from setebench.native.perf.sampling.kinds import SampleId
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


DATA = """#include <stdio.h>
#include <stdlib.h>
int numbers[4096] = {1};
static char zeros[1 << 16];
int main(void) {
    int own = 0;
    char *small = malloc(100), *large = malloc(64 << 20);
    printf("%p %p %p %p %p\\n", (void *)&numbers[4000], (void *)&zeros[60000], small, (void *)&own, large + 99999);
    fflush(stdout);
    return getchar() == 0;
}
"""


def test_addresses_of_loads_name_variables_heap_stack_and_mapped_memory(tmp_path: Path) -> None:
    (tmp_path / "data.c").write_text(DATA)
    subprocess.run(["gcc", "-O0", "-o", tmp_path / "data", tmp_path / "data.c"], check=True)
    with subprocess.Popen([tmp_path / "data"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stdin is not None
        addresses = [int(word, 16) for word in running.stdout.readline().split()]
        memory = mapped_now(running.pid)
        running.stdin.close()
    names = [data_object(memory, address) for address in addresses]
    assert names[:4] == ["numbers [data]", "zeros [data]", "[heap]", "[stack]"]
    assert names[4].startswith("memory mapped at 0x") and names[4].endswith("64 MiB")
    assert data_object(memory, 16) == "[unknown]"


def test_slow_loads_while_memory_is_saturated_name_their_data() -> None:
    line = timeline(CHASE)
    begin = line.intervals[0].begin
    loads = [
        Load(seconds=begin, thread=1, place=Place(), latency_cycles=cycles, data=data)
        for data, cycles in (("a", 500), ("a", 700), ("b", 900), ("c", 50))
    ]
    found = touched(msgspec.structs.replace(line, loads=tuple(loads)), {0}, 100.0)
    assert [(each.data, each.samples, each.cycles) for each in found] == [("a", 2, 600.0), ("b", 1, 900.0)]
    assert found[0].fraction == pytest.approx(2 / 3) and not touched(line, set(), 100.0)


def test_a_stripped_program_has_no_names_but_those_it_links_by(program: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    table = symbols(str(stripped))
    assert table is not None and table.name(starts(program)["inner"]) is None


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


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=12))
def test_a_later_mapping_hides_what_it_overlaps(rows: list[tuple[int, int]]) -> None:
    memory, model = Memory(), dict[int, tuple[str, int]]()
    for number, (start, size) in enumerate(rows):
        memory.add(Mapping(start, start + size, 1000 * number, str(number)))
        model |= {address: (str(number), 1000 * number + address - start) for address in range(start, start + size)}
    for address in range(100):
        found = memory.find(address)
        assert (found and (found.path, found.offset + address - found.start)) == model.get(address)


# -- profiles -----------------------------------------------------------------------------------------------------


def sample(ip: int, time: int, mode: str = "user", pid: int = 5, tid: int = 5) -> SampleRecord:
    return SampleRecord(mode=mode, exact=False, who=SampleId(pid, tid, time), ip=ip)


def mapped(program: Path, pid: int = 5, time: int = 0) -> Mapped:
    size = program.stat().st_size
    who = SampleId(pid, pid, time)
    return Mapped(
        pid=pid,
        tid=pid,
        address=0x10000,
        size_bytes=size,
        offset_bytes=0,
        path=str(program),
        executable=True,
        who=who,
    )


def test_samples_are_named_by_thread_function_and_interval(program: Path) -> None:
    known = {name: 0x10000 + address for name, address in starts(program).items()}
    child = Started(pid=6, parent_pid=5, tid=6, parent_tid=5, time=20)
    records: list[Record] = [
        sample(known["outer"], 2_000_000_100),
        sample(known["inner"], 1_000_000_000, tid=7),
        sample(known["inner"], 30, pid=6, tid=6),
        child,
        mapped(program, time=1),
        Renamed(pid=5, tid=7, name="helper", of_exec=False, who=SampleId(5, 7, 2)),
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


@pytest.mark.skipif(shutil.which("addr2line") is None, reason="binutils' addr2line is not installed")
def test_lines_come_from_debug_information(program: Path) -> None:
    profile = Profile(begin_ns=0, seconds_each=0.01)
    profile.add_all([mapped(program), sample(0x10000 + starts(program)["outer"], 10)])
    (hit,) = profile.hits([1.0])
    assert hit.place.line == "small.c:2"


def test_sampled_loads_say_who_served_them(program: Path) -> None:
    source = DataSource(operation="load", level="memory", hit=True, tlb="hit", snoop="hitm")
    load = msgspec.structs.replace(
        sample(0x10000, 5 * 10**8), source=source, weights=Weights(latency_cycles=400), address=64
    )
    profile = Profile(begin_ns=0, seconds_each=0.0)
    profile.add_all([mapped(program), load])
    (found,) = profile.loads()
    assert (found.level, found.tlb_hit, found.latency_cycles, found.seconds) == ("memory", True, 400, 0.5)
    assert found.address == 64


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


def test_functions_are_listed_by_their_time() -> None:
    spots = hot(two_phases())
    assert [(spot.function, spot.fraction, spot.samples) for spot in spots] == [
        ("solve", 0.5, 200),
        ("write", 0.5, 200),
    ]
    assert spots[0].seconds == pytest.approx(1.0)


def test_code_that_suffers_is_that_of_saturated_intervals() -> None:
    observed = two_phases()
    assert [spot.function for spot in suffering(observed, range(10), 300)] == ["solve"]
    solve, write = (hit.place for hit in (observed.hits[0], observed.hits[-1]))
    loads = tuple(
        Load(seconds=seconds, thread=1, place=place, latency_cycles=cycles, level="memory", tlb_hit=True)
        for seconds, place, cycles in (
            (0.5, write, 900),
            (0.6, write, 800),
            (0.7, solve, 400),
            (0.7, solve, 20),
            (1.5, solve, 900),
        )
    )
    slow = suffering(msgspec.structs.replace(observed, loads=loads), range(10), 300)
    assert [(spot.function, spot.samples) for spot in slow] == [("write", 2), ("solve", 1)]


def test_waiting_is_laid_to_the_functions_of_the_intervals_that_wait() -> None:
    observed = two_phases()
    spots = waiting(observed, [10.0] * 10 + [90.0] * 10)
    assert [spot.function for spot in spots] == ["write", "solve"]
    assert spots[0].seconds == pytest.approx(0.9 * 1.0)
    assert waiting(observed, [None] * 20) == []


# -- the plot -----------------------------------------------------------------------------------------------------


def kept(observed: Timeline) -> dict[str, object]:
    basis = Basis(calibration=Calibration(saturation_cycles=300.0))
    each = [Figures([row], basis) for row in observed.intervals]
    return {"diagnose": msgspec.to_builtins(evidence(observed, each, basis, hot(observed), []))}


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
    figure = timeline_figure(kept(observed))
    assert [axes.get_ylabel() for axes in figure.axes] == panels
    assert figure.axes[-1].get_xlabel().endswith("(s)") and all(axes.get_legend() for axes in figure.axes)
    for axes in figure.axes:
        for patch in axes.patches:
            red, green, blue, _ = colors.to_rgba(patch.get_facecolor())
            assert red == green == blue
    assert re.search(rb"<svg", encode(figure, "svg", alt_text(figure)))
