"""Which CPU was measured, and which kind of core that is, where the kernel shows several kinds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from native_fixture import command, setebench
from scenario_files import with_modules, write_files

from setebench.native.threads import allowed_cpus

HYBRID = """
mkdir -p "$0"; mount --bind /sys/devices "$0"; mount -t tmpfs none /sys/devices; mkdir /sys/devices/system
mount --bind "$0/system" /sys/devices/system; mkdir /sys/devices/cpu_core /sys/devices/cpu_atom
echo "$1" > /sys/devices/cpu_core/cpus; echo "$2" > /sys/devices/cpu_atom/cpus; shift 2; exec "$@"
"""
"""Runs a command in a mount namespace in which the first CPUs are big cores and the second ones small ones."""

TINY = """
from setebench.probe import Probe


def answer(context):
    ticks = context.machine.run(Probe().start().add(100).stop(), 20, cpu=context.cpu)
    yield Finding(parameter="tiny.ticks", value=float(ticks.mean()), unit="ticks")


SCENARIO = Scenario(name="tiny", summary="Tiny.", answer=answer, parameters=("tiny.",))
"""


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_files(tmp_path / "scenarios", tiny=TINY)
    monkeypatch.setenv("PYTHONPATH", with_modules(folder)["PYTHONPATH"])


@pytest.mark.parametrize("chosen", [(), ("--cpu", str(allowed_cpus()[0]))])
def test_file_and_first_line_name_the_cpu_and_its_kind_of_core(tmp_path: Path, chosen: tuple[str, ...]) -> None:
    allowed, result = allowed_cpus(), tmp_path / "r.json"
    cpu, beyond = allowed[0 if chosen else -1], str(allowed[-1] + 1)
    small = str(allowed[-1])
    big = ",".join(map(str, allowed[:-1])) or beyond
    kind = "small core" if cpu == allowed[-1] else "big core"
    own = [sys.executable, "-m", "setebench"]
    inside = ["unshare", "-m", "bash", "-c", HYBRID, str(tmp_path / "devices"), big, small]
    if command([*inside, "true"]).returncode:
        pytest.skip("only root can show this process other kinds of core")
    done = command([*inside, *own, "tiny", "--raw", "-o", str(result), *chosen])
    assert done.returncode == 0, done.stderr
    assert f"CPU {cpu}" in done.stderr and "small core: CPU" in done.stderr and "big core: CPU" in done.stderr
    document = json.loads(result.read_text())
    assert (document["settings"]["cpu"], document["settings"]["kind_of_core"]) == (cpu, kind)
    assert document["machine"]["environment"]["topology"]["allowed"] == list(allowed)
    assert f", CPU {cpu} ({kind}), " in setebench("show", str(result)).stdout.splitlines()[0]
    again = command([*own, "infer", str(result), "--format", "json"])
    assert json.loads(again.stdout)["findings"] == document["findings"], again.stderr


def test_one_kind_of_core_is_not_named_but_the_cpu_is() -> None:
    done = setebench("tiny", "--format", "json")
    settings, facts = (json.loads(done.stdout)[key] for key in ("settings", "machine"))
    assert settings["cpu"] == allowed_cpus()[-1]
    kinds = facts["environment"]["topology"]["kinds"] or {}
    assert settings.get("kind_of_core") in (kinds.keys() or {None})
