"""Calendars of ports divide times by their interval with a multiplication."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from setebench.sim.interpreted import interpreted
from setebench.sim.kernel.basics import _divide_by
from setebench.sim.layout import NEVER, PORT_FACTOR, PORT_SHIFT, PORT_WORDS


@given(st.integers(1, 1 << 40), st.integers(0, NEVER - 1), st.integers(-1, 1))
def test_a_port_divides_exactly(interval: int, time: int, beside: int) -> None:
    port = [0] * PORT_WORDS
    interpreted(_divide_by)(port, 0, interval)
    nearby = min(max(time // interval * interval + beside, 0), NEVER - 1)
    for t in (time, nearby):
        factor = port[PORT_FACTOR] % (1 << 64)
        assert ((t << 1) * factor >> 64) >> port[PORT_SHIFT] == t // interval
