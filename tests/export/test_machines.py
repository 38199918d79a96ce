"""Machines that tools don't expect: without a third level, sliced, of several nodes, known by bounds alone."""

from __future__ import annotations

import configparser
import json
import re
from xml.etree import ElementTree

import msgspec
import pytest
from known_results import bound, measured, plain_server, with_facts

from setebench.export import export, formats
from setebench.export.formats.blas import block_sizes
from setebench.results import Document, Finding

every_format = pytest.mark.parametrize("name", formats())


def replaced(document: Document, *findings: Finding) -> Document:
    names = {each.parameter for each in findings}
    kept = [each for each in document.findings if each.parameter not in names]
    return msgspec.structs.replace(document, findings=[*kept, *findings])


def without_level(document: Document, level: int) -> Document:
    kept = [each for each in document.findings if f".l{level}" not in each.parameter]
    return msgspec.structs.replace(document, findings=kept)


def many_cores() -> Document:
    """60 cores of 4 threads without a third level: 512 KiB of 8 ways are a core's own."""
    siblings = [[core, core + 60, core + 120, core + 180] for core in range(60)]
    server = replaced(
        without_level(plain_server(), 3),
        measured("cache.l2.size", 1 << 19, "bytes"),
        measured("cache.l2.ways", 8, "ways"),
    )
    return with_facts(server, cpus=list(range(240)), siblings=siblings)


def sliced() -> Document:
    """A third level of 6 x 2048 sets and 11 ways."""
    size = 6 * 2048 * 11 * 64
    return replaced(plain_server(), measured("cache.l3.size", size, "bytes"), measured("cache.l3.ways", 11, "ways"))


NODES = [{"number": 0, "cpus": [0, 2]}, {"number": 1, "cpus": [1, 3]}, {"number": 4, "cpus": []}]


def sections(document: Document) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read_string(export(document, "sniper"))
    return parser


def tunables(document: Document) -> dict[str, int]:
    settings = re.search(r"^export GLIBC_TUNABLES=(\S+)$", export(document, "glibc"), re.MULTILINE)
    pairs = (each.split("=") for each in settings[1].split(":")) if settings else ()
    return {name.rpartition("x86_")[2]: int(value) for name, value in pairs}


# -- who shares what ----------------------------------------------------------------------------------------------


def test_a_cache_is_divided_by_the_cpus_that_share_it() -> None:
    """A core's own by its threads, another by the CPUs of a memory node."""
    assert tunables(many_cores())["shared_cache_size"] == (1 << 19) // 4
    assert tunables(plain_server())["shared_cache_size"] == (16 << 20) // 4
    assert tunables(with_facts(plain_server(), nodes=NODES))["shared_cache_size"] == (16 << 20) // 2


def test_every_topology_has_the_same_caches() -> None:
    """Two nodes of two CPUs each, and one of memory alone, which has no cache and is no socket."""
    server = with_facts(plain_server(), nodes=NODES)
    kerncraft = export(server, "kerncraft")
    assert "NUMA domains per socket: 2" in kerncraft and "cores per NUMA domain: 1" in kerncraft
    assert re.search(r"- level: L3.*?cores per group: 1\n[^\n]*\n  groups: 2", kerncraft, re.DOTALL)
    assert [json.loads(export(server, "mt4g"))["memory"][f"l{level}"]["amount"] for level in (1, 2, 3)] == [2, 2, 2]
    assert [sections(server)[f"perf_model/{name}"]["shared_cores"] for name in ("l2_cache", "l3_cache")] == ["1", "1"]
    assert sections(plain_server())["perf_model/l3_cache"]["shared_cores"] == "2"

    sage = ElementTree.fromstring(export(server, "sys-sage"))
    assert [len(list(each.iter("Core"))) for each in sage.iter("Memory")] == [1, 1, 0]
    assert sum(each.get("cache_level") == "3" for each in sage.iter("Cache")) == 2
    assert {each.get("size") for each in sage.iter("Memory")} == {"-1"}

    machine = ElementTree.fromstring(export(server, "hwloc"))
    nodes = [each for each in machine.iter("object") if each.get("type") == "NUMANode"]
    assert [(each.get("os_index"), each.get("cpuset")) for each in nodes] == [
        ("0", "0x00000005"),
        ("1", "0x0000000a"),
        ("4", "0x00000000"),
    ]
    assert sum(int(each.get("local_memory", 0)) for each in nodes) <= server.machine.facts["memory_bytes"]
    shared = [each for each in machine.iter("object") if each.get("type") == "L3Cache"]
    assert [each.get("cpuset") for each in shared] == ["0x00000005", "0x0000000a"]
    assert "0x00000000" not in {each.get("initiator_cpuset") for each in machine.iter("memattr_value")}


# -- every level --------------------------------------------------------------------------------------------------

LEVEL_WORDS = {
    "gcc": r"l{level}-cache-size|left out: L{level} ",
    "llvm": r"CacheLevel::L{level}D|left out: L{level} ",
    **dict.fromkeys(("glibc", "openblas", "blis"), r"from .*cache\.l{level}\.size|left out: L{level} "),
    "hwloc": r'"L{level}Cache"',
    "sys-sage": r'cache_level="{level}"',
    "mt4g": r'"l{level}": \{{|"L{level}": "cache',
    "champsim": r'"(L1D|L2C|LLC)": \{{|"L{level}": "cache',
    "gem5": r"class SetebenchL{level}",
    "sniper": r"perf_model/l{level}_d?cache",
    "kerncraft": r"- level: L{level}",
    "c": r"SETEBENCH_L{level}_BYTES",
}


@every_format
@pytest.mark.parametrize("levels", [2, 4])
def test_every_level_is_written_or_named(name: str, levels: int) -> None:
    server = plain_server()
    for level in range(levels + 1, 4):
        server = without_level(server, level)
    if levels == 4:
        own = (("cache.l4.size", 64 << 20, "bytes"), ("cache.l4.ways", 16, "ways"), ("latency.l4", 90.0, "cycles"))
        server = replaced(server, *(measured(*each) for each in own))
    text = export(server, name)
    for level in range(1, levels + 1):
        assert re.search(LEVEL_WORDS[name].format(level=level), text), level


# -- what tools refuse --------------------------------------------------------------------------------------------


def test_sets_that_are_no_power_of_two() -> None:
    """gem5 and ChampSim have none; Sniper needs a hash, kerncraft doesn't mind."""
    gem5 = export(sliced(), "gem5")
    third = gem5[gem5.index("class SetebenchL3") :]
    assert not re.search(r"^    (size|assoc) = ", third[: third.index("class SetebenchTLB")], re.MULTILINE)
    assert third.count("12288 sets") == 2
    champsim = json.loads(export(sliced(), "champsim"))
    assert not {"sets", "ways"} & set(champsim["LLC"]) and "12288" in champsim["setebench"]["left_out"]["LLC.sets"]
    caches = sections(sliced())
    assert caches["perf_model/l3_cache"]["address_hash"] == "mod"
    assert caches["perf_model/l2_cache"]["address_hash"] == "mask"
    assert "sets: 12288" in export(sliced(), "kerncraft")


# -- bounds -------------------------------------------------------------------------------------------------------


def test_a_bound_below_a_fraction_is_no_bound() -> None:
    """At least 4 ways make at most so many sets."""
    few = replaced(plain_server(), bound("cache.l3.ways", 4, "ways"))
    for name in ("champsim", "gem5", "sniper", "kerncraft", "blis", "openblas"):
        text = export(few, name)
        assert "65536" not in text, name
    champsim = json.loads(export(few, "champsim"))
    assert (
        not {"sets", "ways"} & set(champsim["LLC"]) and "cache.l3.ways" in champsim["setebench"]["left_out"]["LLC.sets"]
    )
    latency = replaced(plain_server(), bound("latency.l2", 14.4, "cycles"))
    assert "hit_latency" not in json.loads(export(latency, "champsim"))["LLC"]


def test_the_model_gives_the_blocks_of_its_paper() -> None:
    """Low et al. 2016, Sandy Bridge: 32 KiB and 256 KiB of 8 ways, micro-kernel 8 x 4 of doubles: k_c 256, m_c 96."""
    assert block_sizes((8, 4, 8), (8, 4096), (8, 32768)) == [256, 96]
