"""CPU exceptions in a probe are survived and named, in whichever thread, and others' handlers are left in place."""

from __future__ import annotations

import mmap
import signal
import tempfile
import threading
import time

import numpy as np
import pytest
from native_fixture import LINE, in_python, two_cpus

from setebench.errors import ProbeFault
from setebench.machine import Region
from setebench.native.machine import NativeMachine
from setebench.probe import Base, Probe

GUARDED = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
TIMED = Probe().start().load(LINE).stop()


def still_works(machine: NativeMachine, region: Region) -> bool:
    return bool((machine.run(TIMED, {LINE: region.random_lines(20, 1)}) > 0).all())


@pytest.mark.parametrize("address", [0, 8, 1 << 46, (1 << 63) - 64, 0x0123_4567_89AB_CDC0, -4096])
@pytest.mark.parametrize("operation", ["load", "store", "flush"])
def test_a_bad_address_is_a_segmentation_fault(
    native: NativeMachine, region: Region, operation: str, address: int
) -> None:
    probe = getattr(Probe().fence().nop(3), operation)(LINE).fence()
    with pytest.raises(ProbeFault) as caught:
        native.run(probe, {LINE: [address]})
    # a non-canonical address is a stack or a general-protection fault, which Linux reports as SIGBUS or SIGSEGV
    assert caught.value.signal in ("SIGSEGV", "SIGBUS")
    assert caught.value.operation == 2
    assert f"operation 2 ({operation})" in str(caught.value)
    assert still_works(native, region)


def test_a_prefetch_of_nowhere_is_no_fault(native: NativeMachine) -> None:
    assert native.run(Probe().prefetch(LINE).start().stop(), {LINE: [0, 8, 1 << 46]}).shape == (3, 1)


def test_a_page_behind_the_end_of_a_file_is_a_bus_error(native: NativeMachine, region: Region) -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(2 * mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), 2 * mmap.PAGESIZE) as mapping:
            view = np.frombuffer(mapping, dtype=np.uint8)
            address = view.ctypes.data
            file.truncate(mmap.PAGESIZE)
            assert native.run(TIMED, {LINE: [address]}).shape == (1, 1)
            with pytest.raises(ProbeFault) as caught:
                native.run(TIMED, {LINE: [address + mmap.PAGESIZE]})
            del view
    assert caught.value.signal == "SIGBUS"
    assert caught.value.address == address + mmap.PAGESIZE
    assert still_works(native, region)


@pytest.mark.parametrize("number", GUARDED, ids=lambda number: number.name)
def test_every_guarded_signal_is_named(native: NativeMachine, region: Region, number: signal.Signals) -> None:
    """No operation divides, so none raises SIGFPE; sent to the thread while its probe runs, it takes the same way."""
    names: list[str] = []
    ready = threading.Event()

    def run_long() -> None:
        ready.set()
        try:
            native.run(Probe().wait(10**8), 100)
        except ProbeFault as fault:
            names.append(fault.signal)

    thread = threading.Thread(target=run_long)
    previous = signal.getsignal(number)
    thread.start()
    ready.wait()
    time.sleep(0.3)  # a hundred probes of 10**8 rounds run for seconds, so this one is under way
    assert thread.ident is not None
    signal.pthread_kill(thread.ident, number)
    thread.join()
    assert names == [number.name]
    assert signal.getsignal(number) == previous
    assert still_works(native, region)


def test_faults_in_many_threads_at_once(native: NativeMachine) -> None:
    counts: list[int] = []

    def fault() -> None:
        seen = 0
        for address in range(200):
            try:
                native.run(Probe().load(LINE), {LINE: [address]})
            except ProbeFault as caught:
                seen += caught.address == address
        counts.append(seen)

    threads = [threading.Thread(target=fault) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [200] * 4


# ---- others' handlers ---------------------------------------------------------------------------------------------

CHAINED = """
import os, signal, sys
from setebench.native.machine import NativeMachine
from setebench.errors import ProbeFault
from setebench.probe import Base, Probe

seen = []
signal.signal(signal.SIGFPE, lambda number, frame: seen.append(number))
line = Base("line")
machine = NativeMachine()
os.kill(os.getpid(), signal.SIGFPE)       # outside any probe: the handler from before gets it
for _ in range(2):
    try:
        machine.run(Probe().load(line), {line: [0]})
    except ProbeFault as fault:
        seen.append(fault.signal)         # and the guard is still there
machine.close()
os.kill(os.getpid(), signal.SIGFPE)
print(seen)
"""


def test_a_handler_from_before_still_gets_its_signals() -> None:
    done = in_python(CHAINED)
    number = int(signal.SIGFPE)
    assert done.stdout.strip() == str([number, "SIGSEGV", "SIGSEGV", number]), done.stderr


CRASHING = """
import ctypes, faulthandler, sys
from setebench.native.machine import NativeMachine
{before}
machine = NativeMachine()
{close}
ctypes.string_at(0)
"""


@pytest.mark.parametrize("close", ["", "machine.close()"])
@pytest.mark.parametrize("before", ["", "faulthandler.enable()"])
def test_a_crash_elsewhere_still_ends_the_process_and_is_reported_as_before(before: str, close: str) -> None:
    done = in_python(CRASHING.format(before=before, close=close))
    assert done.returncode == -signal.SIGSEGV
    assert ("Segmentation fault" in done.stderr) == bool(before)


# ---- together -----------------------------------------------------------------------------------------------------


def test_a_fault_in_one_thread_lets_the_other_go(native: NativeMachine, region: Region) -> None:
    first, second = two_cpus(native)
    good, bad = Base("good"), Base("bad")
    probes = {
        first: Probe().load(good).barrier().start().load(good).stop().barrier(),
        second: Probe().load(bad).barrier().start().load(bad).stop().barrier(),
    }
    for count in (1, 500):
        placed = {good: region.random_lines(count, 1), bad: [*region.random_lines(count - 1, 2), 0]}
        with pytest.raises(ProbeFault, match="SIGSEGV in operation 0"):
            native.run_together(probes, placed)
    assert still_works(native, region)
