"""The file that comes with a report of a wrong answer: it is small, says nothing of whose machine it is, and is enough
to repeat the inference elsewhere."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

from native_fixture import command, environment, setebench

HOST = "the-host-of-the-bundle"


def test_a_bundle_is_small_and_anonymous_and_is_inferred_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "a folder of somebody" / "bundle"
    file.parent.mkdir()
    own = [sys.executable, "-m", "setebench", "doctor", "-q", "--bundle", str(file)]
    named = ["unshare", "-u", "sh", "-c", f'hostname {HOST} && exec "$@"', "sh"]  # only root may name the host
    done = command([*named, *own] if command([*named, "true"]).returncode == 0 else own)
    assert done.returncode == 0 and "clock brackets: " in done.stdout, done.stderr
    assert file.stat().st_size <= 300_000
    text = gzip.decompress(file.read_bytes()).decode()
    for private in (HOST, str(tmp_path), str(Path.home()), sys.executable, environment()["PATH"], "--bundle"):
        assert private not in text
    assert not re.search(r"""[\s"'(=:]/\w""", text), "no path at all"
    document = json.loads(text)
    checks = {check["name"]: check for check in document["evidence"]["doctor"]["checks"]}
    assert {"clock step", "2 MiB page", "hypervisor"} <= checks.keys() and document["machine"]["environment"]["cpu"]
    assert document["evidence"]["doctor"]["clock"]["brackets"]
    for line in (("show", str(file)), ("infer", "-q", str(file))):
        shown = setebench(*line, "--format", "json")
        assert json.loads(shown.stdout)["findings"] == document["findings"] != [], shown.stderr


def test_a_bundle_replaces_no_file(tmp_path: Path) -> None:
    file = tmp_path / "bundle"
    file.write_text("kept")
    done = setebench("doctor", "--bundle", str(file))
    assert done.returncode == 2 and "exists" in done.stderr and file.read_text() == "kept"
    assert len(done.stderr.strip().splitlines()) <= 4 and done.stdout == ""
    assert "--force" in done.stderr and setebench("doctor", "--force", "--bundle", str(file)).returncode == 0
    assert file.read_bytes() != b"kept"


def test_what_disturbs_this_machine_is_recorded_and_replayed(tmp_path: Path) -> None:
    file, own = tmp_path / "here.npz", tmp_path / "own.toml"
    done = setebench("doctor", "--record", str(file), "--seconds", "0.2")
    assert done.returncode == 0 and f"wrote {file}" in done.stderr, done.stderr
    assert file.stat().st_size <= 60_000
    levels = "".join(f"[[levels]]\nsets = {sets}\nways = 8\nlatency_cycles = {sets // 16}\n" for sets in (64, 512))
    own.write_text(f'name = "own"\n[noise]\nrecorded = "{file}"\n{levels}')
    shown = setebench("latency", "--fast", "--machine", f"sim:{own}", "--format", "json")
    found = {each["parameter"]: each["value"] for each in json.loads(shown.stdout)["findings"]}
    assert abs(found["latency.l1"] - 4.0) < 0.3, shown.stderr
