"""What the system says of itself, from recorded machines and files made up."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from trees import write_tree

from setebench.host.environment import Environment, read_environment
from setebench.host.processor import Cache, Processor, Topology
from setebench.store import plain

MACHINES = Path(__file__).parents[1] / "fixtures" / "machines"


def machine(name: str) -> Environment:
    return read_environment(MACHINES / name)


def write(root: Path, files: dict[str, str]) -> Environment:
    write_tree(root, files)
    return read_environment(root)


def test_recorded_guest() -> None:
    guest = machine("epyc_guest")
    assert (guest.cpu.vendor, guest.cpu.family, guest.cpu.model, guest.cpu.stepping) == ("AuthenticAMD", 25, 1, 1)
    assert {"clflushopt", "avx2", "hypervisor"} <= set(guest.cpu.flags)
    assert (guest.hypervisor.present, guest.hypervisor.name) == (True, "KVM")
    assert guest.topology.allowed == guest.topology.online == (0, 1)
    assert guest.topology.siblings == ((0,), (1,))
    assert (guest.kernel.governors, guest.kernel.boost) == (None, None)
    memory = guest.memory
    assert (memory.huge_pages, memory.transparent, memory.locked_limit_bytes) == (0, "madvise", 8 << 20)
    assert guest.kernel.stolen == pytest.approx(25 / (8088 + 3406 + 52 + 25))
    assert guest.rights.msr == "absent"
    assert (guest.limits.cpu_quota, guest.limits.memory_left_bytes) == ("unlimited", "unlimited")
    assert guest.unread == ()


HYBRID = {"sys/devices/system/cpu/online": "0-3", "sys/devices/cpu_core/cpus": "0-1", "sys/devices/cpu_atom/cpus": "2"}
CAPACITY = "sys/devices/system/cpu/cpu{}/cpu_capacity"


@pytest.mark.parametrize(
    ("files", "kinds"),
    [
        (HYBRID, {"big core": (0, 1), "small core": (2,)}),
        (
            {"sys/devices/system/cpu/online": "0-2"}
            | {CAPACITY.format(cpu): text for cpu, text in enumerate(("1024", "990", "660"))},
            {"big core": (0, 1), "small core": (2,)},
        ),
    ],
)
def test_kinds_of_core_are_those_of_the_kernel(
    tmp_path: Path, files: dict[str, str], kinds: dict[str, tuple[int, ...]] | None
) -> None:
    write_tree(tmp_path, files)
    assert read_environment(tmp_path).topology.kinds == kinds


def test_malformed_files_are_unknown_and_reported() -> None:
    odd = machine("malformed")
    assert odd.cpu == Processor()
    assert odd.topology == Topology(online=(0,), isolated=(), caches=(Cache(level=1),))
    assert odd.memory.huge_pages is None
    assert (odd.memory.available_bytes, odd.memory.numa_nodes, odd.memory.transparent) == (None, None, None)
    assert (odd.limits.cpu_quota, odd.kernel.load, odd.kernel.stolen) == (None, None, None)
    assert (odd.kernel.governors, odd.kernel.boost) == (None, None)
    reported = "\n".join(odd.unread)
    for name in ("online", "loadavg", "proc/stat", "boost", "limits", "node/online", "osrelease"):
        assert name in reported
    assert "\x1b" not in reported


def test_this_machine_is_readable() -> None:
    environment = read_environment()
    assert environment.topology.allowed == tuple(sorted(os.sched_getaffinity(0)))
    assert environment.kernel.version is not None and os.uname().release.startswith(environment.kernel.version)


def test_private_words_of_a_recorded_machine_are_not_kept(tmp_path: Path) -> None:
    secret = "zanzibar"
    environment = write(
        tmp_path,
        {
            "proc/sys/kernel/osrelease": f"6.1.0-{secret}",
            "proc/sys/kernel/hostname": secret,
            "proc/self/cgroup": f"0::/user-{secret}",
            "sys/fs/cgroup/cgroup.controllers": "cpu",
            f"sys/fs/cgroup/user-{secret}/cpu.max": "broken",
            "proc/cpuinfo": "processor: 0\nflags: hypervisor\n",
            "sys/class/dmi/id/sys_vendor": secret,
            "sys/class/dmi/id/product_name": f"KVM {secret}",
            "sys/class/dmi/id/product_serial": secret,
        },
    )
    assert environment.hypervisor.name == "KVM"
    assert environment.unread == ("sys/fs/cgroup: a limit can't be read or understood",)
    assert environment.limits.cpu_quota is None
    assert secret not in json.dumps(plain(environment))


@pytest.mark.parametrize(
    ("files", "quota", "memory"),
    [
        ({"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, "unlimited", None),
        ({"cpu/x": "", "memory/b/memory.limit_in_bytes": "9223372036854771712"}, "unlimited", "unlimited"),
    ],
)
def test_limits_of_the_first_cgroup_version(
    tmp_path: Path, files: dict[str, str], quota: object, memory: object
) -> None:
    tree = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    limits = write(tmp_path, {"proc/self/cgroup": "2:cpu,cpuacct:/a\n1:memory:/b\n", **tree}).limits
    assert (limits.cpu_quota, limits.memory_left_bytes) == (quota, memory)
