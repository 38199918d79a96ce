"""Would anything on this machine disturb a measurement? Facts and advice; nothing is changed, nothing is measured here.

`checks` turns what was read (`setebench.host.environment`) and what was measured (`reports`) into rows: what
was found, what that means for a timing of tens of cycles, and what to do about it. A module has one subject's rows.
"""

from __future__ import annotations

from setebench.host.doctor.clock import clock_checks
from setebench.host.doctor.cpus import cpu_checks
from setebench.host.doctor.memory import memory_checks
from setebench.host.doctor.reports import NOTHING, Check, ClockReport, CounterReport, PageReport
from setebench.host.doctor.rights import rights_checks
from setebench.host.environment import Environment


def checks(
    environment: Environment,
    cpu: int | None = None,
    clock: ClockReport | str = NOTHING,
    pages: PageReport | str = NOTHING,
    counters: CounterReport | str = NOTHING,
) -> list[Check]:
    """Every check, in the order in which a person should read them: of a measurement on `cpu`, or on any that is
    allowed, with reports of what was measured, or why it wasn't."""
    return [
        *clock_checks(environment, clock),
        *cpu_checks(environment, cpu),
        *memory_checks(environment, pages),
        *rights_checks(environment, counters),
    ]
