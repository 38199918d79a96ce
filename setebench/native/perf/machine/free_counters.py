"""How many of a core's counters are free, found by asking for them until there are none."""

from __future__ import annotations

from setebench.doctor import CounterReport
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Hardware, Type
from setebench.native.perf.messages import Request, counts_nothing, explain, no_counter, read_situation
from setebench.native.perf.plans import user_form

MOST = 32
"""More than any core has."""
EVENT = user_form(Attributes(type=Type.HARDWARE, config=Hardware.BRANCH_INSTRUCTIONS, pinned=True, disabled=True))
"""Every core has this event and none a fixed counter for it, so that it shows the counters that any event can use."""


def counter_report() -> CounterReport:
    """Open pinned events until one finds no counter, on the CPU under our feet. Raises nothing."""
    situation = read_situation()
    fds: list[int] = []
    reason = f"at least {MOST}"
    try:
        while len(fds) < MOST:
            fds.append(_perf.open_event(EVENT))
            _perf.enable(fds[-1])
            sum(range(100))  # some hundred branches
            reading = _perf.read_values(fds[-1], 1)
            if reading is None or not reading.values[0]:
                reason = no_counter(situation) if reading is None else counts_nothing(situation)
                _perf.close(fds.pop())
                break
    except _perf.PerfError as error:
        reason = explain(error.errno or 0, Request(attributes=EVENT), situation)
    finally:
        for fd in fds:
            _perf.close(fd)
    return CounterReport(free=len(fds), reason=reason)
