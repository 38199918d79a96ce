"""The machine under our feet, opened once for every file of hardware tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from setebench.machine import Region
from setebench.native.machine import NativeMachine


@pytest.fixture(scope="module")
def native() -> Iterator[NativeMachine]:
    machine = NativeMachine()
    yield machine
    machine.close()


@pytest.fixture
def region(native: NativeMachine) -> Iterator[Region]:
    mapped = native.allocate(4 << 20, 4096)
    yield mapped
    native.release(mapped)


@pytest.fixture
def counting_permitted() -> None:
    """The kernel lets this process count its own page faults; where it does not, counting can't be tried."""
    from setebench.native.perf.native_counters import NativeCounters

    reason = NativeCounters().event_roles()["page_fault"]
    if reason:
        pytest.skip(f"nothing may be counted here: {reason}")
