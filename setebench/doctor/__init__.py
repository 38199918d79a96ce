"""Would anything on this machine disturb a measurement? Facts and advice; nothing is changed, nothing is measured here.

`checks` turns what was read (`setebench.host.environment`) and what was measured (`ClockReport`, `PageReport`) into a
list of `Check`: what was found, what that means for a timing of tens of cycles, and what to do about it. docs/doctor.md
explains every one.
"""

from __future__ import annotations

from setebench.doctor.clock import clock_checks
from setebench.doctor.counters import counter_checks
from setebench.doctor.cpu import cpu_checks
from setebench.doctor.facts import facts_checks
from setebench.doctor.memory import memory_checks
from setebench.doctor.records import BracketReport, Check, ClockReport, CounterReport, PageReport, Status
from setebench.doctor.rights import rights_checks
from setebench.host.environment import Environment

UNCOUNTED = CounterReport()

__all__ = ["BracketReport", "Check", "ClockReport", "CounterReport", "PageReport", "Status", "checks", "facts_checks"]


def checks(
    environment: Environment,
    clock: ClockReport | None,
    pages: PageReport | None,
    *,
    cpu: int | None = None,
    counters: CounterReport = UNCOUNTED,
    why_no_clock: str = "nothing was measured",
    why_no_pages: str = "nothing was measured",
) -> list[Check]:
    """Every check, in the order in which a person should read them.

    `cpu` is the CPU to measure on, None where any of the allowed ones may be. `why_no_clock` and `why_no_pages` are
    the reasons that the checks of a missing report give; `counters` has its own.
    """
    return [
        *clock_checks(environment, clock, why_no_clock),
        *cpu_checks(environment, cpu),
        *memory_checks(environment, pages, why_no_pages),
        *counter_checks(environment, counters),
        *rights_checks(environment),
    ]
