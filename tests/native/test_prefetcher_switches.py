"""Switching prefetchers off by registers: plain files stand in for the kernel's devices, and everything is put back."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from setebench.errors import SetebenchError, UnsupportedError
from setebench.host.processor import Processor, Topology
from setebench.native.registers.prefetchers import (
    GOLDEN_COVE,
    GRACEMONT,
    INTEL_REGISTER,
    REDWOOD_COVE,
    SINCE_NEHALEM,
    Layout,
    NativeSwitches,
    layout_of,
)

ALL = tuple(bit.name for bit in SINCE_NEHALEM)
DEADLINE_SECONDS = 20.0


def device(root: Path, cpu: int, value: int, register: int = INTEL_REGISTER) -> Path:
    path = root / f"dev/cpu/{cpu}/msr"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.seek(register)
        file.write(value.to_bytes(8, "little"))
    return path


def value_of(path: Path, register: int = INTEL_REGISTER) -> int:
    with path.open("rb") as file:
        file.seek(register)
        return int.from_bytes(file.read(8), "little")


@pytest.fixture
def devices(tmp_path: Path) -> list[Path]:
    return [device(tmp_path, 0, 0x20), device(tmp_path, 1, 0x2)]


SKYLAKE = Processor(vendor="GenuineIntel", family=6, model=0x55)


def switches_below(root: Path) -> NativeSwitches:
    return NativeSwitches(SKYLAKE, Topology(), root, allowed=True)


# -- which switches there are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "bits"),
    [
        (0x55, SINCE_NEHALEM),  # Skylake-SP
        (0x97, GOLDEN_COVE),  # Alder Lake
        (0xAD, REDWOOD_COVE),  # Granite Rapids
        (0xAF, GRACEMONT),  # Sierra Forest
    ],
)
def test_switches_of_intel_processors_go_by_the_model(model: int, bits: Any) -> None:
    assert layout_of(Processor(vendor="GenuineIntel", family=6, model=model)) == Layout(0x1A4, bits)


@pytest.mark.parametrize(
    "processor",
    [
        ("GenuineIntel", 6, 0x0F, False),  # Core 2 has its switches elsewhere
        ("GenuineIntel", 15, 0x2A, False),
        ("AuthenticAMD", 0x19, 0x11, False),  # doesn't say that it has the register
        ("AuthenticAMD", 0x17, 0x31, True),
        (None, None, None, True),
    ],
)
def test_a_processor_that_is_not_known_has_no_switches(processor: tuple[str, int, int, bool]) -> None:
    vendor, family, model, announced = processor
    with pytest.raises(UnsupportedError, match="no documented switches are known"):
        layout_of(Processor(vendor=vendor, family=family, model=model), announced=announced)


# -- off and back ------------------------------------------------------------------------------------------------------


def test_switches_are_off_within_and_as_before_after_an_error(tmp_path: Path, devices: list[Path]) -> None:
    with pytest.raises(KeyboardInterrupt), switches_below(tmp_path).off(("L1 IP", "L2 stream"), (0, 1)):
        assert [value_of(path) for path in devices] == [0x29, 0xB]  # what was off before stays off
        raise KeyboardInterrupt
    assert [value_of(path) for path in devices] == [0x20, 0x2]


CHILD = """
import sys, time
from pathlib import Path
from setebench.host.processor import Processor, Topology
from setebench.native.registers.prefetchers import NativeSwitches
switches = NativeSwitches(Processor(vendor="GenuineIntel", family=6, model=0x55), Topology(), Path(sys.argv[1]), True)
with switches.off([switch.name for switch in switches.offered(0)], (0, 1)):
    print("off", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def child(tmp_path: Path, devices: list[Path]) -> Iterator[subprocess.Popen[str]]:
    """A process that has switched everything off and sleeps."""
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "off\n"
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_state_is_restored_whatever_kills_the_process(
    number: signal.Signals, child: subprocess.Popen[str], devices: list[Path]
) -> None:
    assert [value_of(path) for path in devices] == [0x2F, 0xF]
    child.send_signal(number)
    child.wait(DEADLINE_SECONDS)
    deadline = time.monotonic() + DEADLINE_SECONDS  # for the guard to hear of it
    while [value_of(path) for path in devices] != [0x20, 0x2] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [value_of(path) for path in devices] == [0x20, 0x2]


# -- what can't be warranted isn't begun ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("/dev/zero", r"CPU 1 reads 0x0 after 0xf was written"),
        ("/dev/full", r"CPU 1 can't be written \(No space left on device\)"),
    ],
)
def test_a_write_that_is_forgotten_or_refused_is_reported_and_undone(
    tmp_path: Path, devices: list[Path], device: str, said: str
) -> None:
    devices[1].unlink()
    devices[1].symlink_to(device)
    with pytest.raises(UnsupportedError, match=said):
        switches_below(tmp_path).off(ALL, (0, 1)).__enter__()
    assert value_of(devices[0]) == 0x20


def test_what_can_not_be_put_back_is_reported_with_the_commands_for_it(tmp_path: Path, devices: list[Path]) -> None:
    """The guard is gone, and this process may write no more files."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    commands = r"as root: wrmsr -p 0 0x1a4 0x20; wrmsr -p 1 0x1a4 0x2$"
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    others = set(children.read_text().split())  # of tests before, as a tracker of shared memory that stays
    try:
        with pytest.raises(SetebenchError, match=commands) as reported, switches_below(tmp_path).off(ALL, (0, 1)):
            (guard,) = set(children.read_text().split()) - others
            os.kill(int(guard), signal.SIGKILL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, usual[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert not isinstance(reported.value, UnsupportedError)  # which one might take for a mere lack


# -- as a machine offers them ----------------------------------------------------------------------------------------


def test_without_leave_no_register_is_written(tmp_path: Path, devices: list[Path]) -> None:
    before = [path.read_bytes() for path in devices]
    switches = NativeSwitches(SKYLAKE, Topology(), tmp_path)
    with pytest.raises(UnsupportedError, match="only with --msr") as reported:
        switches.offered(0)
    assert "\n" not in str(reported.value)
    with pytest.raises(UnsupportedError, match="only with --msr"):
        switches.off(ALL, (0, 1)).__enter__()
    assert [path.read_bytes() for path in devices] == before


def test_why_a_machine_offers_none_is_one_line(tmp_path: Path) -> None:
    unknown = NativeSwitches(Processor(vendor="GenuineIntel", family=6, model=0xFE), Topology(), tmp_path, allowed=True)
    with pytest.raises(UnsupportedError, match="no documented switches are known"):
        unknown.offered(0)
    bare = switches_below(tmp_path)
    with pytest.raises(UnsupportedError, match=r"can't be switched off: .*modprobe msr") as reported:
        bare.offered(0)
    assert "\n" not in str(reported.value)


def test_cores_of_both_kinds_are_switched_by_their_own_bits(tmp_path: Path, devices: list[Path]) -> None:
    topology = Topology(kinds={"big core": (0,), "small core": (1,)})
    switches = NativeSwitches(Processor(vendor="GenuineIntel", family=6, model=0x97), topology, tmp_path, allowed=True)
    with switches.off([switch.name for switch in switches.offered(0)], (0, 1)):
        assert [value_of(path) for path in devices] == [0x2F, 0x27]
