"""What a timeline is said to mean: figures, findings and advice on counts whose answer is known."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from timelines import BANDWIDTH_BOUND, CHASE, timeline, without

from setebench import store
from setebench.counters.counted import Interval
from setebench.counters.protocol import Count
from setebench.counters.verdicts import save, stored
from setebench.diagnose.document import diagnosed
from setebench.diagnose.figures import Basis, findings
from setebench.diagnose.records import Thread, Timeline
from setebench.errors import SetebenchError
from setebench.results import Document, Finding, MachineRecord, Outcome

CALIBRATED = Basis(saturation_cycles=300.0)


def found(observed: Timeline, basis: Basis | None = None) -> dict[str, Finding]:
    return {each.parameter.removeprefix("diagnose."): each for each in findings(observed, basis or Basis())}


def document(observed: Timeline, basis: Basis | None = None) -> Document:
    machine = MachineRecord(kind="simulated", name="a machine", facts={}, environment={})
    return diagnosed(observed, basis or Basis(), machine, {}, datetime(2026, 1, 1, tzinfo=UTC))


def advice(observed: Timeline, basis: Basis | None = None) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = document(observed, basis).evidence["diagnose"]["advice"]
    return entries


def test_cycles_by_cause_and_latencies_of_a_stream() -> None:
    stream = found(timeline(BANDWIDTH_BOUND))
    assert stream["productive"].value == pytest.approx(20)
    assert stream["memory_bandwidth"].value == pytest.approx(60)
    assert stream["memory_latency"].value == pytest.approx(15)
    assert stream["other_stalls"].value == pytest.approx(5)
    assert stream["store_buffer"].value == pytest.approx(10)
    assert stream["l1_miss_latency"].value == pytest.approx(800)
    assert stream["load_miss_latency"].value == pytest.approx(400)
    assert stream["memory_read"].value == pytest.approx(9.6)


def test_what_is_not_there_is_unavailable_and_what_is_not_trusted_unresolved() -> None:
    lacking = timeline(without(BANDWIDTH_BOUND, "fb_full"))
    lacking = msgspec.structs.replace(lacking, roles={**lacking.roles, "fb_full": "no event here"})
    missing = found(lacking)
    assert missing["productive"].outcome is Outcome.UNAVAILABLE and missing["memory_read"].value is not None
    kinds = {**dict.fromkeys(BANDWIDTH_BOUND, "trusted"), "mem_read": "scaled"}
    rows = [Finding(parameter=f"counter.{role}.verdict", value=[kind], unit="list") for role, kind in kinds.items()]
    trusted = Basis(verdicts={each.parameter: each for each in rows})
    gated = found(timeline(BANDWIDTH_BOUND), trusted)
    assert gated["memory_read"].outcome is Outcome.UNRESOLVED and "not trusted" in str(gated["memory_read"].reason)
    assert gated["productive"].value == pytest.approx(20)
    unchecked = Basis(verdicts={})
    assert all(
        each.value is None for name, each in found(timeline(BANDWIDTH_BOUND), unchecked).items() if "memory" in name
    )


def by_turns(values: dict[str, int], turns: list[set[str]]) -> Timeline:
    """The same program with only some roles counted in each interval."""
    whole = timeline(values, wobble=0)
    rows = []
    for number, row in enumerate(whole.intervals):
        shown = turns[number % len(turns)] | {"cycles", "task_clock"}
        counts = {
            role: count if role in shown else Count(role=role, reason="counted in other intervals")
            for role, count in row.counts.items()
        }
        rows.append(Interval(begin=row.begin, end=row.end, counts=counts))
    return msgspec.structs.replace(whole, intervals=tuple(rows))


def test_roles_that_are_counted_by_turns_give_the_same_figures_and_say_for_how_long() -> None:
    turns = [
        {"no_execute", "stall_l1d_miss", "fb_full"},
        {"stall_store_buffer", "sq_full", "mem_read"},
        {"l1d_inflight_sum", "load_l1_miss", "load_fb_hit"},
    ]
    turned = by_turns(BANDWIDTH_BOUND, turns)
    rotated = found(turned)
    assert rotated["productive"].value == pytest.approx(20) and rotated["memory_bandwidth"].value == pytest.approx(60)
    assert rotated["memory_read"].value == pytest.approx(9.6) and "35 % of the time" in rotated["memory_read"].method
    assert rotated["load_miss_latency"].value == pytest.approx(400)
    assert rotated["memory_write"].value is None


def test_imbalance_is_at_least_that_of_the_time_on_a_cpu() -> None:
    threads = tuple(Thread(number=n, name="", cpu_seconds=own) for n, own in ((1, 3.0), (2, 1.0), (3, 0.001)))
    uneven = msgspec.structs.replace(timeline(BANDWIDTH_BOUND), threads=threads)
    imbalance = found(uneven)["imbalance"]
    assert imbalance.outcome is Outcome.AT_LEAST and imbalance.value == pytest.approx(1.5)
    assert "1.5 times as long as the mean" in str(advice(uneven))
    assert found(timeline(BANDWIDTH_BOUND))["imbalance"].outcome is Outcome.UNAVAILABLE


def test_a_stream_is_advised_to_use_less_bandwidth_and_a_chase_to_follow_several_chains() -> None:
    stream = " ".join(str(each["text"]) for each in advice(timeline(BANDWIDTH_BOUND), CALIBRATED))
    assert "a nearer cache" in stream and "fewer threads" in stream and "triad (stream.c:12)" in stream
    chase = " ".join(str(each["text"]) for each in advice(timeline(CHASE), CALIBRATED))
    assert "several chains" in chase and "fewer threads" not in chase


def validated(kernel: str, *roles: str, only: bool = False) -> Document:
    """A result of `counters validate` that trusts events of these roles."""
    return Document(
        tool=store.this_tool(),
        machine=MachineRecord(kind="native", name="any", facts={}, environment={"kernel": {"version": kernel}}),
        settings={"options": {"role": roles if only else ()}},
        started="",
        elapsed_seconds=0.0,
        findings=[Finding(parameter=f"counter.{role}.verdict", value=["trusted"], unit="list") for role in roles],
        evidence={},
    )


def test_verdicts_are_kept_by_role_until_the_kernel_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    here = validated("1").machine
    assert stored(here) == {}
    save(validated("1", "load", "store"))
    kept = save(validated("1", "cycles", only=True))
    assert set(stored(here)) == {f"counter.{role}.verdict" for role in ("load", "store", "cycles")}
    assert stored(validated("2").machine) == {}
    with pytest.raises(SetebenchError, match="another kernel than now"):
        stored(validated("2").machine, kept)
