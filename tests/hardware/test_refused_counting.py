"""What this kernel refuses to count, to root, to ordinary users and in containers: one line each, and never a zero."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
from pathlib import Path

import pytest
from counting_here import PAGE, PAGES, counted, in_child, opened, software

from setebench.host.tree import Tree
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Software, Type
from setebench.native.perf.kernel import PerfError
from setebench.native.perf.machine.native_counters import NativeCounters
from setebench.native.perf.messages import Request, explain, read_situation
from setebench.native.perf.sysfs import core_pmus, read_pmus

pytestmark = pytest.mark.usefixtures("counting_permitted")


def refusal(attributes: Attributes, pid: int = 0, cpu: int = -1) -> str:
    with pytest.raises(PerfError) as caught:
        _perf.open_event(attributes, pid, cpu)
    line = explain(caught.value.errno or 0, Request(attributes=attributes, pid=pid, cpu=cpu), read_situation())
    assert "\n" not in line and line
    return f"{errno.errorcode[caught.value.errno or 0]}: {line}"


def test_refusals_are_one_line_each() -> None:
    assert refusal(Attributes(type=0x7FFF_0000, exclude_kernel=True)).startswith(
        "ENOENT: this kernel has no PMU of type"
    )
    assert "need a CPU" in refusal(software(Software.PAGE_FAULTS), -1, -1)
    assert "has ended" in refusal(software(Software.PAGE_FAULTS), 0x3FFF_FFFF)
    if not core_pmus(read_pmus(Tree(Path("/")))):
        assert "PMU" in refusal(Attributes(type=Type.RAW, config=0x1D0, exclude_kernel=True))


class FromTheFuture:
    """An event as a later version of the structure has it, with a field that this kernel does not know."""

    bytes_needed = 64

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def packed(self, size: int | None = None) -> bytes:
        """The structure, and behind what any kernel knows a word that none does."""
        self.sizes.append(size or 256)
        plain = software(Software.PAGE_FAULTS).packed(64)
        longer = plain.ljust(248, b"\0") + b"\1" * 8
        return longer[:4] + self.sizes[-1].to_bytes(4, "little") + longer[8 : self.sizes[-1]]


def test_a_kernel_that_knows_a_shorter_structure_is_asked_in_its_size() -> None:
    event = FromTheFuture()
    fd = _perf.open_event(event)
    assert event.sizes[0] == 256 and 64 <= event.sizes[1] < 248 and len(event.sizes) == 2
    assert _perf.read_values(fd, 1) is not None
    _perf.close(fd)
    event.bytes_needed = 256
    with pytest.raises(PerfError) as caught:
        _perf.open_event(event)
    assert caught.value.errno == errno.E2BIG


def test_a_group_read_with_another_number_of_events_is_refused() -> None:
    with counted(software(Software.PAGE_FAULTS), software(Software.TASK_CLOCK)) as read:
        assert len(read().values) == 2
    fd = opened(software(Software.PAGE_FAULTS))
    with pytest.raises(PerfError):
        _perf.read_values(fd, 2)
    with pytest.raises(PerfError):
        _perf.read_values(fd, 0)
    _perf.close(fd)
    with pytest.raises(PerfError):
        _perf.read_values(fd, 1)


# -- an ordinary user -------------------------------------------------------------------------------------------------


def test_an_ordinary_user_counts_what_may_be_counted_and_reads_why_not_the_rest(
    untouched: tuple[mmap.mmap, int],
) -> None:
    memory, _ = untouched

    def work() -> dict[str, object]:
        counters = NativeCounters()
        roles = counters.event_roles()
        counting = counters.count(["page_fault", "context_switch"])
        leaders = [int(fd) for fd in counting.leaders()]
        for leader in leaders:
            _perf.enable(leader, True)
        for page in range(PAGES):
            memory[page * PAGE] = 1
        for leader in leaders:
            _perf.disable(leader, True)
        found = counting.read()
        return {"roles": roles, "faults": found["page_fault"].value, "switches": found["context_switch"].value}

    found = in_child(work)
    assert "error" not in found, found
    roles = found["roles"]
    assert isinstance(roles, dict)
    level = read_situation().paranoid
    if level is not None and level >= 3:
        assert found["faults"] is None and "perf_event_paranoid" in roles["page_fault"]
        return
    assert not roles["page_fault"] and not roles["task_clock"]
    assert isinstance(found["faults"], int) and found["faults"] >= PAGES
    if level == 2:
        assert "reads 0" in roles["context_switch"] and "perf_event_paranoid=1" in roles["cpu_migration"]
        assert found["switches"] is None


def test_an_ordinary_users_refusals_name_the_right_that_is_missing() -> None:
    level = read_situation().paranoid
    if level is None or level < 1:
        pytest.skip(f"perf_event_paranoid is {level}: ordinary users may count whole CPUs here")
    event = software(Software.TASK_CLOCK, user_only=False)

    def work() -> dict[str, object]:
        try:
            _perf.open_event(event, -1, 0)
        except PerfError as error:
            request = Request(attributes=event, pid=-1, cpu=0)
            return {"errno": error.errno, "line": explain(error.errno or 0, request, read_situation())}
        return {}

    found = in_child(work)
    assert found["errno"] in (errno.EACCES, errno.EPERM)
    assert "perf_event_paranoid" in str(found["line"]) and "CAP_PERFMON" in str(found["line"])


# -- limits of the process --------------------------------------------------------------------------------------------

PERF_EVENT_OPEN = 298  # of x86-64
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2  # of prctl(2)


def forbid_events() -> bool:
    """What container engines do: from here on perf_event_open fails with EPERM. False where that can't be set up."""

    class Instruction(ctypes.Structure):
        _fields_ = (
            ("code", ctypes.c_ushort),
            ("true", ctypes.c_ubyte),
            ("false", ctypes.c_ubyte),
            ("k", ctypes.c_uint),
        )

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction)))

    code = (Instruction * 4)(
        Instruction(0x20, 0, 0, 0),  # load the number of the call
        Instruction(0x15, 0, 1, PERF_EVENT_OPEN),
        Instruction(0x06, 0, 0, 0x0005_0000 | errno.EPERM),
        Instruction(0x06, 0, 0, 0x7FFF_0000),  # anything else is allowed
    )
    libc = ctypes.CDLL(None)
    program = Program(len(code), code)
    zero = ctypes.c_ulong(0)
    if libc.prctl(NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero):
        return False
    return not libc.prctl(SET_SECCOMP, ctypes.c_ulong(FILTER), ctypes.byref(program), zero, zero)


def test_a_containers_filter_is_named() -> None:
    def work() -> dict[str, object]:
        return {"set": forbid_events(), **NativeCounters().event_roles()}

    found = in_child(work)
    if not found.pop("set", False):
        pytest.skip(f"this system lets no filter be set up: {found}")
    system = [str(found[role]) for role in ("task_clock", "page_fault", "context_switch", "cpu_migration")]
    level = read_situation().paranoid or 0
    assert all("seccomp" in reason or (level >= 3 and "perf_event_paranoid" in reason) for reason in system)


def test_too_few_open_files_are_named() -> None:
    def work() -> dict[str, object]:
        counters = NativeCounters()
        used = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
        spare = []
        while True:
            try:
                spare.append(os.dup(0))
            except OSError:
                break
        os.close(spare.pop()) if spare else None
        roles = counters.event_roles()
        counting = counters.count(["task_clock", "page_fault"])
        counting.leaders()
        return {"roles": roles, "reasons": [count.reason for count in counting.read().values()]}

    found = in_child(work)
    assert "error" not in found, found
    reasons = found["reasons"]
    assert isinstance(reasons, list) and any("ulimit -n" in reason for reason in reasons)
