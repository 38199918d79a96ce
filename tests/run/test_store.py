"""Result files: what is written, how it is written, and what is refused when it is read."""

from __future__ import annotations

import errno
import gzip
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import make_document

from setebench import store
from setebench.errors import UsageError
from setebench.results import Finding, Outcome

# -- dumps --------------------------------------------------------------------------------------------------------


def test_a_document_survives_the_file(tmp_path: Path) -> None:
    findings = [
        Finding(parameter="latency.l1", value=4.25, unit="cycles", low=4.0, high=4.5, method="m", evidence="e"),
        Finding(parameter="mshr.l1.demand", value=64, unit="entries", outcome=Outcome.AT_LEAST),
        Finding(parameter="prefetcher.l1.region.present", value=False, unit="bool", outcome=Outcome.ABSENT),
        Finding(parameter="x", outcome=Outcome.UNRESOLVED, reason="ragged — ∞"),
        Finding(parameter="y", value=["load", 1, [True]], unit="list"),
    ]
    document = make_document(findings, {"e": {"ticks": [1, 2, 3]}})
    store.write(tmp_path / "a.json", store.dumps(document))
    assert store.load(tmp_path / "a.json") == document


def test_numpy_values_become_plain_numbers_and_keys_are_sorted() -> None:
    evidence: dict[Any, Any] = {
        "scalars": [np.float64(1.5), np.int32(3), np.bool_(True), np.float32(0.5)],
        "table": np.arange(4, dtype=np.int64).reshape(2, 2),
        "point": np.array(7),
        "set": {"b", "a"},
        3: (1, 2),
        "name": "\udcff",
    }
    document = store.dumps(make_document(evidence=evidence))
    assert document == store.dumps(make_document(evidence=dict(reversed(evidence.items()))))
    read = json.loads(document)["evidence"]
    assert read.pop("scalars") == [1.5, 3, True, 0.5]
    assert read == {"3": [1, 2], "name": "?", "point": 7, "set": ["a", "b"], "table": [[0, 1], [2, 3]]}


@pytest.mark.parametrize("missing", [float("nan"), np.float64("-inf"), np.float32("nan")])
def test_numbers_that_json_lacks_are_null_in_evidence_and_bounds(missing: float) -> None:
    finding = Finding(parameter="mshr.l1.demand", value=60, low=60.0, high=missing, outcome=Outcome.AT_LEAST)
    data = json.loads(store.dumps(make_document([finding], {"curve": [1.0, missing], "array": np.array([missing])})))
    assert data["findings"][0]["high"] is None
    assert data["evidence"] == {"curve": [1.0, None], "array": [None]}


# -- write --------------------------------------------------------------------------------------------------------


def test_permissions_follow_the_umask_and_the_replaced_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    previous = os.umask(0o027)
    try:
        store.write(path, b"x")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    store.write(path, b"y", force=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
def test_a_failure_on_the_way_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def fail(_descriptor: int) -> None:
        raise failure

    (tmp_path / "a.json").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsageError if isinstance(failure, OSError) else type(failure)):
        store.write(tmp_path / "a.json", b"new", force=True)
    assert os.listdir(tmp_path) == ["a.json"] and (tmp_path / "a.json").read_bytes() == b"old"


# -- load ---------------------------------------------------------------------------------------------------------


def altered(**changes: Any) -> bytes:
    return json.dumps({**json.loads(store.dumps(make_document())), **changes}).encode()


BAD_FILES = {
    "empty": (b"", "is empty"),
    "truncated": (store.dumps(make_document())[:-40], "cut short"),
    "compressed and truncated": (gzip.compress(store.dumps(make_document()))[:-40], "can't read"),
    "not utf-8": (store.dumps(make_document()).replace(b"latency.l1", b"\xff\xfe"), "damaged|not a setebench"),
    "another json": (b'{"a": 1}', "not a setebench result file: .*schema"),
    "from the future": (altered(schema=2, findings="other"), r"newer setebench \(schema 2"),
    "nan": (store.dumps(make_document()).replace(b"4.0", b"NaN"), "damaged"),
    "huge integer": (altered(evidence={"x": 10**400}), "more than 64 bits"),
    "deep": (
        altered(evidence={}).replace(b'"evidence": {}', b'"evidence": {"x": ' + b"[" * 200 + b"]" * 200 + b"}"),
        "nested too deeply",
    ),
    "wrong outcome": (store.dumps(make_document()).replace(b"measured", b"guessed"), "not a setebench result file"),
    "no value": (store.dumps(make_document()).replace(b"4.0", b"null"), "latency.l1"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    data, message = BAD_FILES[case]
    (tmp_path / "bad.json").write_bytes(data)
    with pytest.raises(UsageError, match=message) as caught:
        store.load(tmp_path / "bad.json")
    assert "\n" not in str(caught.value) and "bad.json" in str(caught.value)


@pytest.mark.parametrize(
    ("unit", "value"), [("bytes", "big"), ("bytes", 0), ("ways", -3), ("bool", 1), ("cycles", True), ("list", "up")]
)
def test_a_value_that_its_unit_can_not_have_is_refused(tmp_path: Path, unit: str, value: Any) -> None:
    file = tmp_path / "a.json"
    store.write(file, store.dumps(make_document([Finding(parameter="cache.l1.size", value=value, unit=unit)], {})))
    with pytest.raises(UsageError, match=r"cache\.l1\.size"):
        store.load(file)


def test_what_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        store.load(tmp_path / "none.json")
    with pytest.raises(UsageError, match="Is a directory"):
        store.load(tmp_path)
    with pytest.raises(UsageError, match="null"):
        store.load("a\0b")


def test_a_file_of_nothing_but_empty_lists_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    lists = b"[" + b"[]," * (store.MOST_VALUES // 2) + b"0]"
    (tmp_path / "a.json").write_bytes(altered().replace(b'"evidence": {', b'"evidence": {"x": ' + lists + b",", 1))
    with pytest.raises(UsageError, match=r"holds more than 8,388,608 values"):
        store.load(tmp_path / "a.json")
