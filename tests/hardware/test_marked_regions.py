"""Regions that programs mark are counted apart, exactly: by threads, processes, nested, begun again, and not ended."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from counting_commands import compile_marked, faults, skip_without_events, stat

from setebench.cli.main import setebench

pytestmark = pytest.mark.long(8)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    skip_without_events()
    return compile_marked(tmp_path_factory.mktemp("marked"))


def _regions(*command: str) -> dict[str, Any]:
    return {region["name"]: region for region in faults(*command).run["regions"]}


def _faults(region: dict[str, Any]) -> int:
    value = region["counts"]["page_fault"]["value"]
    assert isinstance(value, int)
    return value


@pytest.fixture(scope="module")
def found(program: str) -> dict[str, Any]:
    """All regions of one run that has one kind after the other, by name."""
    return _regions(program, "regions", "nested", "again", "touch=33", "overlapping", "threads", "processes", "regions")


@pytest.mark.parametrize(
    ("name", "pages", "calls"),
    [
        ("A", 400, 2),
        ("B", 200, 2),
        ("outer", 150, 1),  # with what the inner one does
        ("inner", 70, 1),
        ("again", 30, 3),  # within itself: counted once
        ("first", 30, 1),  # regions may overlap
        ("second", 60, 1),
        ("process", 80, 2),  # of two processes
    ],
)
def test_regions_are_counted_apart_exactly(found: dict[str, Any], name: str, pages: int, calls: int) -> None:
    region = found[name]
    assert (_faults(region), region["calls"], region["unended"]) == (pages, calls, 0) and region["seconds"] > 0


def test_each_thread_counts_its_own(found: dict[str, Any]) -> None:
    region = found["thread"]
    assert sorted(_faults(thread) for thread in region["threads"]) == [40, 80, 120]
    assert (_faults(region), region["calls"]) == (240, 3)
    assert len({thread["thread"] for thread in region["threads"]}) == 3
    assert len({thread["process"] for thread in region["threads"]}) == 1


@pytest.mark.parametrize("events", ["task_clock,page_fault", "page_fault,task_clock"])
def test_the_clock_goes_on_after_a_sleep(program: str, events: str) -> None:
    """As a member of a group the kernel's clock stands still then, and reads too little without a word."""
    run = stat("-e", events, "--format", "json", "--", program, "drowsy").run
    (region,) = run["regions"]
    assert region["counts"]["task_clock"]["value"] >= 0.5 * run["counts"]["task_clock"]["value"]


def test_marks_without_their_fellows_are_reported(program: str) -> None:
    ended = faults(program, "unended", "unmatched")
    (region,) = ended.run["regions"]
    assert (region["name"], region["calls"], region["unended"], _faults(region)) == ("unended", 1, 1, 0)
    assert ended.run["notes"] == ["1 ends of regions without a begin on the same thread"]
    shown = stat("-e", "page_fault", "--", program, "unended", "unmatched").err
    assert "unended: 1 begins without an end, not counted" in shown and "without a begin" in shown


def test_a_program_that_closes_our_files_is_not_disturbed(program: str) -> None:
    (region,) = faults(program, "closed").run["regions"]
    count = region["counts"]["page_fault"]
    assert count["value"] is None and "closed the descriptors" in count["reason"]


def test_marks_of_a_program_that_runs_by_itself_do_nothing(program: str) -> None:
    arguments = ["regions", "nested", "unended", "unmatched", "threads", "processes"]
    ended = subprocess.run([program, *arguments], capture_output=True, timeout=30)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, b"", b"")


@pytest.mark.parametrize("content", [None, b"", b"x" * 100, b"y" * 10_000])
def test_a_file_that_is_none_of_ours_is_left_alone(program: str, tmp_path: Path, content: bytes | None) -> None:
    place = tmp_path / "regions"
    if content is not None:
        place.write_bytes(content)
    environment = {"SETEBENCH_REGIONS": str(place)}
    assert subprocess.run([program, "regions"], env=environment, timeout=30).returncode == 3
    assert (place.read_bytes() if content is not None else None) == content


def built(folder: Path, *flags: str, compiler: tuple[str, ...] = ("gcc",), **sources: str) -> str:
    """The path of a program of these source files."""
    header = CliRunner().invoke(setebench, ["counters", "header", "--dir"]).stdout.strip()
    for name, text in sources.items():
        (folder / f"{name}.c").write_text(text)
    names = [f"{name}.c" for name in sources]
    line = [*compiler, "-O1", *flags, "-I", header, *names, "-o", "program"]
    subprocess.run(line, cwd=folder, check=True, timeout=60)
    return str(folder / "program")


@pytest.mark.parametrize("language", [("gcc", "-std=gnu99"), ("g++", "-x", "c++", "-std=c++17")])
def test_the_header_is_clean_in_other_languages(tmp_path: Path, language: tuple[str, ...]) -> None:
    """With every warning an error; the test program itself is C, so for C++ a small one stands in."""
    if shutil.which(language[0]) is None:
        pytest.skip(f"{language[0]} is not installed")
    source = (
        '#include <setebench.h>\nint main(void) { setebench_region_begin("x"); setebench_region_end("x"); return 0; }\n'
    )
    flags = ("-Wall", "-Wextra", "-Wshadow", "-Werror", "-O2", "-fPIC")
    assert subprocess.run([built(tmp_path, *flags, compiler=language, one=source)], timeout=30).returncode == 0


# -- from Python ------------------------------------------------------------------------------------------------------

TOUCH = """
import contextlib
import mmap
import threading
import setebench

def touch(pages):
    memory = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        memory[page * 4096] = 1

touch(3)
"""
MARKED = f"""{TOUCH}
@setebench.region("function")
def function():
    touch(100)

for _ in range(3):
    function()
with setebench.region("block"):
    touch(200)
    with setebench.region("block"):
        touch(50)
"""
OWN = f"""{TOUCH}
with setebench.counting("page_fault") as block:
    touch(200)
    within = block.read()["page_fault"].value
summed = setebench.counting("page_fault")

@summed
def function():
    touch(50)

with setebench.counting("page_fault", threads=True) as together, setebench.counting("page_fault") as alone:
    threads = [threading.Thread(target=touch, args=(300,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
before = summed["page_fault"]
for _ in range(4):
    function()
print(within, block["page_fault"].value, before.value, bool(before.reason), summed["page_fault"].value)
print(together["page_fault"].value, alone["page_fault"].value)
missing = setebench.counting("page_fault", "no_such_pmu/event=1/")
with missing:
    pass
print(missing["no_such_pmu/event=1/"].value, bool(missing["no_such_pmu/event=1/"].reason))
"""
SOME = 12
"""Page faults that the interpreter may add by growing its own memory."""


def test_python_code_marks_regions() -> None:
    skip_without_events()
    found = _regions(sys.executable, "-c", MARKED)
    assert {name: region["calls"] for name, region in found.items()} == {"function": 3, "block": 2}
    assert 300 <= _faults(found["function"]) <= 300 + SOME and 250 <= _faults(found["block"]) <= 250 + SOME


def test_python_code_counts_itself() -> None:
    skip_without_events()
    ended = subprocess.run([sys.executable, "-c", OWN], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    block, threads, missing = (line.split() for line in ended.stdout.splitlines())
    assert 200 <= int(block[0]) <= int(block[1]) <= 200 + SOME
    assert block[2:4] == ["None", "True"] and 200 <= int(block[4]) <= 200 + 4 * SOME
    assert 900 <= int(threads[0]) <= 900 + 100 and int(threads[1]) < 300
    assert missing == ["None", "True"]
