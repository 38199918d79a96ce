"""The machine under our feet, opened once for every file of hardware tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from setebench.core.native import NativeMachine
from setebench.machine import Region


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
