"""Roles of recorded processors on a kernel of the tests' own: what fits at once, by the table and by what is free."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_kernel import FakeEvent, FakeKernel
from hypothesis import given
from hypothesis import strategies as st

from setebench.counters.roles import ROLES
from setebench.errors import UsageError
from setebench.host.tree import Tree
from setebench.native.perf.machine.native_counters import NativeCounters
from setebench.native.perf.plans import SYSTEM_PLANS
from setebench.native.perf.sysfs import Bits, PmuEvent, core_pmus, parse_format, read_pmus

MACHINES = Path(__file__).parents[1] / "fixtures" / "pmus"


def machine(name: str, kernel: FakeKernel | None = None) -> NativeCounters:
    return NativeCounters(kernel or FakeKernel(), Tree(MACHINES / name))


def countable(counters: NativeCounters) -> list[str]:
    return [role for role, reason in counters.event_roles().items() if not reason]


@pytest.mark.parametrize("name", ["haswell_ep", "zen5"])
def test_groups_hold_every_role_once_and_fit(name: str) -> None:
    kernel = FakeKernel()
    counters = machine(name, kernel)
    roles = countable(counters)
    assert set(SYSTEM_PLANS) < set(roles) and len(roles) > 10
    groups = counters.event_groups(roles)
    assert sorted(role for group in groups for role in group) == sorted(roles)
    assert len(groups) > 1 and not kernel.events


def test_roles_of_one_counter_are_never_together() -> None:
    """Haswell's three events of misses in flight can use counter 2 only."""
    groups = machine("haswell_ep").event_groups(["l1d_inflight_sum", "l1d_inflight_cycles", "stall_l1d_miss", "cycles"])
    assert [len(set(group) - {"cycles"}) for group in groups] == [1, 1, 1]


@pytest.mark.parametrize("free", [1, 2, 3])
def test_counters_that_others_hold_make_groups_smaller(free: int) -> None:
    kernel = FakeKernel(free=free)
    counters = machine("zen5", kernel)
    roles = ["cycles", "instructions", "l1d_fill", "l2_rfo"]
    groups = counters.event_groups([*roles, "page_fault"])
    assert sorted(role for group in groups for role in group) == sorted([*roles, "page_fault"])
    assert all(len([role for role in group if role in roles]) <= free for group in groups)
    assert any("page_fault" in group for group in groups) and not kernel.events


def test_the_cores_events_leave_the_kernel_out_and_memory_counts_everybody() -> None:
    kernel = FakeKernel()
    counting = machine("haswell_ep", kernel).count(["cycles", "mem_read"])
    counting.leaders()
    own = [event for event in kernel.events.values() if event.pid == 0]
    shared = [event for event in kernel.events.values() if event.pid == -1]
    assert own and all(event.attributes.exclude_kernel for event in own)
    assert shared and not any(event.attributes.exclude_kernel or event.attributes.exclude_user for event in shared)
    assert len({(event.attributes.type, event.cpu) for event in shared}) == len(shared)  # each box on each socket
    counting.close()


def test_an_ordinary_user_has_the_cores_roles_and_a_reason_for_memory() -> None:
    def ordinary(event: FakeEvent) -> int:
        return 0 if event.attributes.exclude_kernel and event.pid == 0 else 13  # EACCES

    roles = machine("haswell_ep", FakeKernel(refuse=ordinary)).event_roles()
    assert not roles["cycles"] and not roles["page_fault"]
    assert roles["mem_read"] and roles["context_switch"]


def test_a_guest_without_a_pmu_has_the_systems_roles() -> None:
    counters = machine("guest")
    assert countable(counters) == list(SYSTEM_PLANS)
    with pytest.raises(UsageError, match="there is no role 'nonsense'"):
        counters.event_groups(["nonsense"])
    missing = next(role for role in ROLES if role not in counters.event_roles())
    with pytest.raises(UsageError, match=f"knows no event for '{missing}'"):
        counters.count([missing])


# -- what the kernel lists --------------------------------------------------------------------------------------------


def test_pmus_as_listed() -> None:
    found = read_pmus(Tree(MACHINES / "zen5"))
    assert [pmu.name for pmu in core_pmus(found)] == ["cpu"]
    assert found["cpu"].formats["event"] == (Bits("config", 0, 7), Bits("config", 32, 35))
    assert found["cpu"].cpus is None and found["amd_umc_0"].cpus
    assert core_pmus(read_pmus(Tree(MACHINES / "guest"))) == []
    assert read_pmus(Tree(MACHINES / "nowhere")) == {}


def write(root: Path, **files: str) -> Tree:
    for name, text in files.items():
        path = root / "sys/bus/event_source/devices/box" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(root)


def test_every_part_of_a_pmu(tmp_path: Path) -> None:
    tree = write(
        tmp_path,
        type="11\n",
        cpumask="0,16-17\n",
        cpus="0-15\n",
        rdpmc="1\n",
        caps__max_precise="3\n",
        format__event="config:0-7,32-35\n",
        format__ldlat="config1:0-15\n",
        format__edge="config:18\n",
        events__reads="event=0x04,umask=0x03\n",
    )
    folder = tmp_path / "sys/bus/event_source/devices/box/events"
    (folder / "reads.scale").write_text("6.103515625e-5\n")
    (folder / "reads.unit").write_text("MiB\n")
    (pmu,) = read_pmus(tree).values()
    assert (pmu.type, pmu.cpus, pmu.core_cpus, pmu.rdpmc) == (11, (0, 16, 17), tuple(range(16)), 1)
    assert pmu.caps == {"max_precise": "3"}
    assert pmu.formats["ldlat"] == (Bits("config1", 0, 15),) and pmu.formats["edge"] == (Bits("config", 18, 18),)
    assert pmu.events == {"reads": PmuEvent(text="event=0x04,umask=0x03", scale=6.103515625e-5, unit="MiB")}
    assert tree.problems == []


def test_what_is_malformed_is_left_out_and_named(tmp_path: Path) -> None:
    tree = write(
        tmp_path, type="11", cpumask="9-3", format__event="config:7-0", format__umask="config:8-15", caps__x=""
    )
    (folder := tmp_path / "sys/bus/event_source/devices/box/events").mkdir()
    (folder / "reads").write_text("event=1")
    (folder / "reads.scale").write_text("lots")
    (pmu,) = read_pmus(tree).values()
    assert pmu.cpus is None and list(pmu.formats) == ["umask"] and pmu.events["reads"].scale is None
    assert len(tree.problems) == 3
    assert read_pmus(write(tmp_path / "other", type="eleven")) == {}


@pytest.mark.parametrize(
    "text", ["", "config", "config:", "config:64", "config:5-", "config:3-1", "config4:1", "x:1-2"]
)
def test_what_is_no_format(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a (format|range of bits)"):
        parse_format(text)


@given(st.text())
def test_no_text_of_a_format_does_worse(text: str) -> None:
    try:
        assert all(0 <= low <= high < 64 for _, low, high in parse_format(text))
    except ValueError as error:
        assert "not a" in str(error)
