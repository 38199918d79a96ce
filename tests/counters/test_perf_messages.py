"""What is said of counting that is refused: a line for every errno of the call, and the doctor's checks."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest
from trees import write_tree

from setebench.host.environment import Hypervisor
from setebench.native.perf.attributes import Attributes, Flag, Type
from setebench.native.perf.messages import Pmu, Situation, explain, read_situation

CORE = Pmu(name="cpu", type=4)
UNCORE = Pmu(name="uncore_imc_0", type=12, cpus=(0,))
BARE = Situation(
    paranoid=2, privileged=False, seccomp=False, hypervisor=Hypervisor(present=False), pmus={"cpu": CORE, "imc": UNCORE}
)
ROOT = msgspec.structs.replace(BARE, privileged=True)
GUEST = Situation(paranoid=2, privileged=True, seccomp=False, hypervisor=Hypervisor(present=True, name="KVM"))
USER = Attributes(type=Type.RAW, config=0x148, flags=Flag.EXCLUDE_KERNEL)
BOTH = Attributes(type=Type.RAW, config=0x148)
SOCKET = Attributes(type=12, config=0x304, pid=-1, cpu=0)
EXPLAINED = [
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP, errno.EBUSY, errno.ENOSPC, errno.ENODEV),
    *(errno.ENXIO, errno.EMFILE),
]
UNEXPLAINED = [errno.ENOMEM, errno.ESRCH, 4242]


@pytest.mark.parametrize("number", [*EXPLAINED, *UNEXPLAINED])
@pytest.mark.parametrize("event", [USER, BOTH, SOCKET])
def test_every_errno_is_one_line_for_everybody_everywhere(number: int, event: Attributes) -> None:
    for situation in (BARE, ROOT, GUEST, Situation(), msgspec.structs.replace(BARE, seccomp=True, paranoid=4)):
        line = explain(number, event, situation)
        assert 20 < len(line) < 220 and "\n" not in line and not line.endswith(".")
        assert ("the kernel refused" in line) == (number in UNEXPLAINED)


@pytest.mark.parametrize(
    ("level", "event", "forbidden", "remedy"),
    [
        (3, USER, "all events to ordinary users", "perf_event_paranoid=2"),
        (2, BOTH, "counting in the kernel", "perf_event_paranoid=1"),
        (2, SOCKET, "a whole CPU", "perf_event_paranoid=0"),
    ],
)
def test_rights_by_the_level_that_forbids(level: int, event: Attributes, forbidden: str, remedy: str) -> None:
    line = explain(errno.EACCES, event, msgspec.structs.replace(BARE, paranoid=level))
    assert forbidden in line and remedy in line and f"it is {level}" in line and "CAP_PERFMON" in line


def test_no_pmu_and_no_such_event_are_distinguished() -> None:
    assert "KVM gives this guest no PMU" in explain(errno.ENOENT, USER, GUEST)
    assert "pmu=on" in explain(errno.ENOENT, USER, GUEST)
    bare = msgspec.structs.replace(BARE, pmus={})
    assert "no PMU of this CPU" in explain(errno.ENOENT, USER, bare)
    assert "no such event" in explain(errno.ENOENT, USER, BARE)
    assert "no PMU of type 12" in explain(errno.ENOENT, SOCKET, GUEST)


@pytest.mark.parametrize(
    ("capabilities", "privileged"),
    [("0", False), ("0000004000000000", True), ("x", None)],
)
def test_the_situation_is_read_from_the_system(tmp_path: Path, capabilities: str, privileged: bool | None) -> None:
    files = {
        "proc/self/status": f"Name:\tx\nCapEff:\t{capabilities}\nSeccomp:\t2\n",
        "proc/sys/kernel/perf_event_paranoid": "4\n",
        "proc/sys/kernel/nmi_watchdog": "1\n",
        "sys/bus/event_source/devices/cpu/type": "4\n",
    }
    found = read_situation(write_tree(tmp_path, files))
    assert (found.paranoid, found.privileged, found.seccomp, found.nmi_watchdog) == (4, privileged, True, True)
    assert list(found.pmus) == ["cpu"]
