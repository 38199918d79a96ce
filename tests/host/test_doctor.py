from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from setebench.cli.doctor import checks, doctor, print_checks
from setebench.errors import UsageError
from setebench.host.doctor.reports import BracketReport, Check, ClockReport, PageReport, Status
from setebench.host.environment import read_environment

MACHINES = Path(__file__).parents[1] / "fixtures" / "machines"
ALL = sorted(path.name for path in MACHINES.iterdir())
DOCS = Path(__file__).parents[2] / "docs" / "doctor.md"
GUEST_CLOCK = ClockReport(
    step_ticks=26,
    ticks_per_second=2.596e9,
    brackets=(
        BracketReport(name="lfence", overhead_ticks=42.7, jitter_ticks=13.0),
        BracketReport(name="cpuid", overhead_ticks=19_200.0, jitter_ticks=900.0),
    ),
    chosen="lfence",
    cpuid_traps=True,
    cpuid_ticks=9_600,
    cycles_per_tick=1.641,
    cycles_per_tick_low=1.638,
    cycles_per_tick_high=1.644,
)


def by_name(found: list[Check]) -> dict[str, Check]:
    names = [check.name for check in found]
    assert len(set(names)) == len(names)
    return {check.name: check for check in found}


def of_machine(
    name: str, clock: ClockReport | None = None, pages: PageReport | None = None, cpu: int | None = None
) -> dict[str, Check]:
    nothing = "nothing was measured"
    reports = {"clock": clock or nothing, "pages": pages or nothing, "counters": nothing}
    return by_name(checks(read_environment(MACHINES / name), cpu, reports))


def statuses(found: dict[str, Check], *names: str) -> list[str]:
    return [found[name].status.value for name in names]


def test_nothing_known_means_unknown_and_never_good() -> None:
    assert {check.status for check in of_machine("nowhere").values()} == {Status.UNKNOWN}


def test_guest_with_a_coarse_clock_and_splintered_pages() -> None:
    pages = PageReport(granted=True, how="madvise", tlb_behaviour="splintered", reason="a step of 7 cycles at line 97")
    found = of_machine("epyc_guest", GUEST_CLOCK, pages)
    clock = statuses(found, "cpuid", "clock brackets", "clock step", "cycles per tick")
    assert clock == ["note", "good", "note", "good"]
    assert "9,600 ticks" in found["cpuid"].found
    assert "26 ticks (10.02 ns, 43 core cycles)" in found["clock step"].found
    assert "lfence 42.7 (spread 13.0), cpuid 19,200.0 (spread 900.0)" in found["clock brackets"].found
    assert "4,260 MHz" in found["cycles per tick"].found
    assert statuses(found, "hypervisor", "2 MiB page", "2 MiB in the TLB") == ["note", "good", "note"]
    assert "step of 7 cycles" in found["2 MiB in the TLB"].found


def test_huge_pages_that_are_not_granted() -> None:
    report = PageReport(granted=False, how="none", tlb_behaviour="unavailable", reason="because")
    found = of_machine("epyc_guest", None, report)
    assert statuses(found, "2 MiB page", "2 MiB in the TLB") == ["bad", "unknown"]
    assert "because" in found["2 MiB in the TLB"].found


def test_documentation_has_every_check() -> None:
    known = {name for machine in ALL for name in of_machine(machine)} | {"kinds of core"}
    assert known == set(re.findall(r"\*\*(.+?)\*\*", DOCS.read_text()))


# -- the command -------------------------------------------------------------------------------------------------------


def test_checks_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_checks(list(of_machine("intel_desktop").values()))
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert "frequency boost: note: on" in lines
    assert "hypervisor: good: none" in lines
    assert lines[-1] == "0 bad, 8 note, 8 unknown, 13 good"
    assert "\x1b" not in text


def test_a_cpu_that_is_not_there_is_refused() -> None:
    result = CliRunner().invoke(doctor, ["--cpu", "8191"])
    assert isinstance(result.exception, UsageError) and result.stdout == ""
    assert "CPU 8191 can't be used; choose one of " in str(result.exception)
