from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from known_results import measured, opened, plain_server, result

from setebench import store
from setebench.cli.main import setebench
from setebench.export import export, formats

every_format = pytest.mark.parametrize("name", formats())


@every_format
def test_what_is_unresolved_is_left_out_and_named(name: str) -> None:
    """Every number that rests on the sizes vanishes, and no other takes its place."""
    sizes = [f"cache.l{level}.size" for level in (1, 2, 3)]
    text = export(opened(plain_server(), *sizes), name)
    assert "nobody knows" in text
    for number in ("32768", "1048576", "16777216"):
        assert number in export(plain_server(), name) or number not in text
        assert not re.search(rf"(?<![\d.]){number}(?![\d.])", text)


# -- read back ----------------------------------------------------------------------------------------------------


def options(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("-")]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_gcc_takes_the_options(tmp_path: Path) -> None:
    text = export(plain_server(), "gcc")
    given = dict(re.findall(r"--param=([\w-]+)=(\d+)", text))
    assert given == {
        "l1-cache-size": "32",
        "l1-cache-line-size": "64",
        "l2-cache-size": "1024",
        "simultaneous-prefetches": "10",
        "prefetch-latency": "300",
        "prefetch-minimum-stride": "2049",
    }
    program = tmp_path / "sum.c"
    program.write_text(
        "double sum(double *a, long n) { double s = 0; for (long i = 0; i < n; i++) s += a[i]; return s; }\n"
    )
    command = ["gcc", "-O2", "-fprefetch-loop-arrays", "-Q", "--help=params", *options(text), "-c", str(program)]
    listing = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    for key, value in given.items():
        assert re.search(rf"--param={key}=\s+{value}\b", listing), key
    compiled = ["gcc", "-O2", "-fprefetch-loop-arrays", *options(text), "-S", "-o", "-", str(program)]
    subprocess.run(compiled, cwd=tmp_path, capture_output=True, check=True)


def test_what_verification_speaks_against_is_said_beside_the_value() -> None:
    whole = plain_server()
    doubts = [measured("verify.bursts.time_error", 40.0, "%", 9.0), measured("verify.chases.agreement", 97.0, "%", 2.0)]
    own = [
        measured("verify.bursts.time_error.ceiling", 8.0, "%", 2.0),
        measured("verify.chases.ceiling", 98.0, "%", 1.0),
    ]
    told = [line for line in export(result(*whole.findings, *doubts, *own), "c").splitlines() if "verify has" in line]
    assert told and all("mshr" in line and "40 %" in line and "8 %" in line for line in told)
    assert "verify has" not in export(whole, "c")


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_header_compiles(tmp_path: Path) -> None:
    source, program = tmp_path / "header.c", tmp_path / "program"
    values = "SETEBENCH_L1_CYCLES == 4.2 && SETEBENCH_L1_BYTES_PER_SECOND == 20000000000LL && SETEBENCH_L3_WAYS == 16"
    source.write_text(2 * export(plain_server(), "c") + f"int main(void) {{ return !({values}); }}\n")
    for compiler in (["gcc"], ["g++", "-xc++"]):
        command = [*compiler, "-Wall", "-Werror", "-o", str(program), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        subprocess.run([str(program)], check=True)


def test_glibc_reads_the_tunables() -> None:
    text = export(plain_server(), "glibc")
    settings = re.search(r"^export GLIBC_TUNABLES=(\S+)$", text, re.MULTILINE)
    assert settings
    wanted = dict(each.split("=") for each in settings[1].split(":"))
    assert wanted["glibc.cpu.x86_shared_cache_size"] == str((16 << 20) // 4)  # four CPUs share it
    assert wanted["glibc.cpu.x86_non_temporal_threshold"] == str((16 << 20) // 4 * 3 // 4)
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip("glibc's loader is not there")
    found = subprocess.run(
        [str(loader), "--list-tunables"], env={"GLIBC_TUNABLES": settings[1]}, capture_output=True, text=True
    )
    if found.returncode:
        pytest.skip("this glibc can't list its tunables")
    for name, value in wanted.items():
        assert re.search(rf"^{re.escape(name)}: {int(value):#x} ", found.stdout, re.MULTILINE), name


def test_sys_sage_finds_properties_and_ends_of_paths() -> None:
    """Every component has what sys-sage's reader needs, and no comment stands among components."""
    text = export(plain_server(), "sys-sage")
    assert "<!--" not in text[text.index("<Components>") :]
    root = ElementTree.fromstring(text)
    components = [each for each in root.find("Components").iter() if each.tag != "Components"]  # type: ignore[union-attr]
    assert all({"id", "name", "addr"} <= set(each.keys()) for each in components)
    addresses = {each.get("addr") for each in components}
    paths = root.findall("Relations/DataPath")
    assert len(paths) == 8 and all(set(str(each.get("components")).split()) <= addresses for each in paths)
    assert {each.get("latency") for each in paths} >= {"100.0"} and {each.get("bw") for each in paths} == {
        "20000000000"
    }


def test_champsim_latencies_add_up() -> None:
    config = json.loads(export(plain_server(), "champsim"))
    names = ("L1D", "L2C", "LLC")
    assert [(config[name]["sets"], config[name]["ways"]) for name in names] == [(64, 8), (1024, 16), (16384, 16)]
    total, measured_cycles = 0, (4.2, 14.4, 50.0)
    for name, cycles in zip(names, measured_cycles, strict=True):
        total += config[name]["hit_latency"]
        assert total == pytest.approx(cycles, abs=1.5)
        total += config[name]["fill_latency"]
    assert (config["L1D"]["prefetcher"], config["L2C"]["prefetcher"]) == ("ip_stride", "va_ampm_lite")
    assert (config["STLB"]["sets"] * config["STLB"]["ways"], config["ooo_cpu"][0]["frequency"]) == (1536, 3000)


def test_gem5_reads_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every class has only parameters of gem5's BaseCache (src/mem/cache/Cache.py) or X86TLB."""
    words = "size assoc tag_latency data_latency response_latency mshrs tgts_per_mshr clusivity prefetcher"
    objects = ModuleType("m5.objects")
    policies = ("LRURP", "TreePLRURP", "NRURP", "RandomRP", "RRIPRP")
    for name in ("Cache", "X86TLB", "StridePrefetcher", "TaggedPrefetcher", *policies):
        setattr(objects, name, type(name, (), {"__init__": lambda self, degree=0: None}))
    monkeypatch.setitem(__import__("sys").modules, "m5", ModuleType("m5"))
    monkeypatch.setitem(__import__("sys").modules, "m5.objects", objects)
    found: dict[str, Any] = {}
    exec(compile(export(plain_server(), "gem5"), "machine.py", "exec"), found)
    own = {name: kind for name, kind in found.items() if name.startswith("Setebench")}
    for name, kind in own.items():
        fields = {key for key in vars(kind) if not key.startswith("__")}
        assert fields <= ({"size"} if name == "SetebenchTLB" else {*words.split(), "replacement_policy"})
    assert (own["SetebenchL2"].size, own["SetebenchL2"].data_latency) == ("1048576B", 12)
    assert own["SetebenchL2"].clusivity == "mostly_incl" and not hasattr(own["SetebenchL3"], "clusivity")


# -- the command --------------------------------------------------------------------------------------------------


def test_the_command_lists_and_writes(tmp_path: Path) -> None:
    listing = CliRunner().invoke(setebench, ["export", "--list"])
    assert listing.exit_code == 0 and [line.split()[0] for line in listing.output.splitlines()] == list(formats())
    file, target = tmp_path / "result.json", tmp_path / "out.txt"
    file.write_bytes(store.dumps(plain_server()))
    assert CliRunner().invoke(setebench, ["export", str(file), "--to", "gcc", "-o", str(target)]).exit_code == 0
    assert target.read_text() == export(plain_server(), "gcc")
    assert CliRunner().invoke(setebench, ["export", str(file), "--to", "gcc", "-o", str(target)]).exit_code == 2
    assert CliRunner().invoke(setebench, ["export", str(file), "--to", "nothing"]).exit_code == 2
    assert CliRunner().invoke(setebench, ["export", str(file)]).exit_code == 2
