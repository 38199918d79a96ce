"""The event tables: read strictly, whom they hold for, and what every record must say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest
from recorded_pmus import processor

from setebench.counters.roles import ROLES, Quantity, Scope
from setebench.errors import SetebenchError
from setebench.host.processor import Processor
from setebench.native.perf.tables import (
    FOLDER,
    Need,
    Prefetches,
    Status,
    conflicts,
    events_for,
    load_tables,
    table_for,
    why_none,
)

TABLES = load_tables()
SPECS = [(name, role, spec) for name, table in TABLES.items() for role, spec in table.roles.items()]
GOOD = (FOLDER / "zen5.toml").read_text(encoding="utf-8")


def cpu(vendor: str, family: int, model: int, stepping: int | None = 0) -> Processor:
    return Processor(vendor=vendor, family=family, model=model, stepping=stepping)


# -- whom they hold for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "table"),
    [
        (cpu("GenuineIntel", 6, 0x3C, 3), "haswell"),
        (cpu("GenuineIntel", 6, 0x3F, 2), "haswell-ep"),
        (cpu("GenuineIntel", 6, 0x4F, 1), "broadwell-ep"),
        (cpu("GenuineIntel", 6, 0x9E, 10), "skylake"),
        (cpu("GenuineIntel", 6, 0x55, 4), "skylake-sp"),
        (cpu("GenuineIntel", 6, 0x55, 7), "cascade-lake-sp"),
        (cpu("GenuineIntel", 6, 0x7E, 5), "ice-lake"),
        (cpu("GenuineIntel", 6, 0x6A, 6), "ice-lake-sp"),
        (cpu("GenuineIntel", 6, 0x8C, 1), "tiger-lake"),
        (cpu("GenuineIntel", 6, 0x8F, 8), "sapphire-rapids"),
        (cpu("GenuineIntel", 6, 0xCF, 2), "sapphire-rapids"),
        (cpu("GenuineIntel", 6, 0xAD, 1), "granite-rapids"),
        (cpu("AuthenticAMD", 25, 0x01, 1), "zen3"),
        (cpu("AuthenticAMD", 25, 0x11, 1), "zen4"),
        (cpu("AuthenticAMD", 26, 0x02, 1), "zen5"),
    ],
)
def test_a_processor_has_the_table_that_names_it(described: Processor, table: str) -> None:
    found = table_for(described)
    assert found is not None and found[0] == table
    assert events_for(described) == TABLES[table].roles


@pytest.mark.parametrize(
    "described",
    [
        cpu("GenuineIntel", 6, 0x97, 2),  # two kinds of core
        cpu("GenuineIntel", 6, 0x55, None),  # Skylake-SP or Cascade Lake: the stepping says which
        cpu("GenuineIntel", 15, 0x3F, 2),
        cpu("AuthenticAMD", 26, 0x50, 0),  # the generation after Zen 5
        cpu("AuthenticAMD", 6, 0x3F, 2),
        cpu("CentaurHauls", 6, 0x3F, 2),
        Processor(),
    ],
)
def test_no_neighbours_table_is_taken(described: Processor) -> None:
    assert events_for(described) == {}
    assert table_for(described) is None
    assert why_none(described).startswith("no event table for ") and "raw events" in why_none(described)


def test_no_processor_has_two_tables() -> None:
    named = Counter(
        (match.vendor, match.family, model, stepping)
        for table in TABLES.values()
        for match in table.processors
        for model in match.models
        for stepping in (match.steppings or range(16))
    )
    assert named and set(named.values()) == {1}


def test_a_role_that_is_missing_has_its_reason() -> None:
    zen = processor("zen5")
    assert "retired loads" in why_none(zen, "load")
    assert why_none(zen, "cycles") == ""
    assert "no event for it" in why_none(zen, "task_clock")


# -- what every record must say --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_every_role_of_the_hardware_is_there_or_absent_with_a_reason(name: str) -> None:
    table = TABLES[name]
    hardware = {role for role, record in ROLES.items() if record.quantity is not Quantity.SYSTEM}
    unsaid = hardware - set(table.roles) - set(table.absent)
    assert not unsaid, (
        f"a new role: say in every file of {FOLDER} which event plays it, or under [absent] why none does"
    )
    assert all(len(reason) > 20 and "\n" not in reason for reason in table.absent.values())


def test_nothing_claims_to_be_validated() -> None:
    """No hardware event was ever counted by this project."""
    assert {status.value for status in Status} == {"documented", "cross-checked"}
    for _, _, spec in SPECS:
        assert len(spec.sources) >= (2 if spec.status is Status.CROSS_CHECKED else 1)


def test_events_of_a_socket_need_the_right_to_see_everybody() -> None:
    for name, role, spec in SPECS:
        assert (spec.scope is Scope.SOCKET) == (ROLES[role].scope is Scope.SOCKET), (name, role)
        assert (Need.SYSTEM_WIDE in spec.needs) == (spec.scope is Scope.SOCKET) == (spec.pmu != "cpu"), (name, role)


def test_every_source_is_named_with_its_commit() -> None:
    for table in TABLES.values():
        assert {key for spec in table.roles.values() for key in spec.sources} == set(table.sources)
        for source in table.sources.values():
            assert source.project and source.path and len(source.commit) == 40


def test_counters_are_named_and_a_wide_event_begins_at_an_even_one() -> None:
    for name, role, spec in SPECS:
        assert spec.counters and len(set(spec.counters)) == len(spec.counters), (name, role)
        assert not spec.counters_without_smt or set(spec.counters) < set(spec.counters_without_smt), (name, role)
        assert spec.width == 1 or all(first % spec.width == 0 for first in spec.counters)


def test_cycles_and_instructions_may_take_fixed_counters_on_intel() -> None:
    for name, role, spec in SPECS:
        intel = TABLES[name].processors[0].vendor == "GenuineIntel"
        assert (spec.fixed is not None) == (intel and role in ("cycles", "instructions"))


def test_what_the_papers_say_of_events_stands_in_the_tables() -> None:
    haswell, broadwell = TABLES["haswell-ep"].roles, TABLES["broadwell-ep"].roles
    assert haswell["offcore_mem_read"].includes_prefetch is Prefetches.CONTRADICTED
    assert haswell["fb_full"].cmask == broadwell["fb_full"].cmask == 1
    assert {TABLES[name].roles["fb_full"].cmask for name in ("skylake-sp", "ice-lake-sp", "sapphire-rapids")} == {0}
    assert "HSM30" in haswell["load_l1_miss"].errata and "HSD29" in haswell["hitm_local"].errata
    for name in ("zen3", "zen4"):
        assert "floor per cycle of 4" in TABLES[name].roles["l1d_inflight_sum"].notes
    assert TABLES["zen5"].roles["l1d_inflight_sum"].notes.startswith("exact")


def test_links_count_eight_flits_a_line_and_later_ones_nine() -> None:
    assert TABLES["haswell-ep"].roles["link_flit"].factor == 1
    assert TABLES["sapphire-rapids"].roles["link_flit"].factor * 9 == 8


def test_operations_are_weighted_by_the_elements_of_an_instruction() -> None:
    for name in ("broadwell-ep", "skylake-sp", "ice-lake-sp", "sapphire-rapids", "granite-rapids"):
        codes = TABLES[name].roles["fp_op"].codes
        masks = [code.umask for code in codes]
        assert {code.event for code in codes} == {0xC7}
        assert all(one & two == 0 for at, one in enumerate(masks) for two in masks[:at])
        operations = {0x01: 1, 0x02: 1, 0x04: 2, 0x08: 4, 0x10: 4, 0x20: 8, 0x40: 8, 0x80: 16}
        for code in codes:
            assert {operations[1 << bit] for bit in range(8) if code.umask >> bit & 1} == {code.factor}


def test_disagreements_of_sources_are_listed_with_who_says_what() -> None:
    found = conflicts()
    assert len(found) >= 20
    assert all(dispute.conflict.source and dispute.conflict.value for dispute in found)
    assert all((dispute.role != "") != (dispute.conflict.about != "") for dispute in found)
    said = " ".join(f"{dispute.table} {dispute.role} {dispute.conflict.source}" for dispute in found)
    for word in ("LIKWID", "libpfm4", "Linux", "Helm and Taura", "Molka", "intel/perfmon"):
        assert word in said


# -- read strictly ---------------------------------------------------------------------------------------------------


def read_instead(folder: Path, text: str) -> str:
    """What is said of `text` in place of a table."""
    (folder / "zen5.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SetebenchError) as refused:
        load_tables(folder)
    said = str(refused.value)
    assert "\n" not in said and said.startswith(str(folder / "zen5.toml") + ":")
    line, _, said = said.removeprefix(str(folder / "zen5.toml") + ":").partition(":")
    return f"{text.splitlines()[int(line) - 1]}|{said}"


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("[roles.cycles]", "[roles.cycle]", "[roles.cycle]", "no such role"),
        ("event = 0x44", "event = 0x44\ncolour = 1", "colour = 1", "colour"),
        ("event = 0x44", "", "[roles.l1d_fill]", "one event, or a sum"),
        ("event = 0x44", "event = 'x'", "event = 'x'", "int"),
        ("event = 0x44", "event = 0x44\nscale = '8/0'", "scale = '8/0'", "not a scale"),
        ("event = 0x44", "event = 0x44\nscale = -1", "scale = -1", "not a scale"),
        ("event = 0x44", "event = 0x44\nevent = 0x45", "event = 0x45", "overwrite"),
        ("width = 2", "width = 'wide'", "width = 'wide'", "int"),
        ('status = "cross-checked"', 'status = "validated"', 'status = "validated"', "validated"),
        ('includes_prefetch = "no"', 'includes_prefetch = "perhaps"', 'includes_prefetch = "perhaps"', "perhaps"),
        ("family = 26", "family = 26\nnumber = 3", "number = 3", "number"),
        ("[absent]", "[absent]\ncycles = 'x'", "cycles = 'x'", "lacks"),
        ("[absent]", "[absent]\nnone = 'x'", "none = 'x'", "lacks"),
        ('title = "AMD Zen 5"', "", "", "title"),
        ("sources = { load_store", "sources = { elsewhere", "sources = { elsewhere", "'elsewhere'"),
        ("[roles.cycles]", "[roles.cycles", "[roles.cycles", ""),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    tmp_path: Path, old: str, new: str, line: str, says: str
) -> None:
    assert old in GOOD
    said = read_instead(tmp_path, GOOD.replace(old, new, 1))
    assert line in said.split("|")[0] and says in said.partition("|")[2]


def test_a_good_file_elsewhere_is_read(tmp_path: Path) -> None:
    (tmp_path / "zen5.toml").write_text(GOOD, encoding="utf-8")
    assert load_tables(tmp_path) == {"zen5": TABLES["zen5"]}
    assert load_tables(tmp_path / "none") == {}


def test_the_page_on_events_lists_the_tables_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs/events.md").read_text(encoding="utf-8")
    for name, table in TABLES.items():
        checked = sum(spec.status is Status.CROSS_CHECKED for spec in table.roles.values())
        assert f"| `{name}` | {table.title} | {len(table.roles)} | {checked} |" in page


def test_the_example_of_the_page_is_a_table(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/events.md").read_text(encoding="utf-8")
    example = page[page.index("    title = ") : page.index("| key of a role")]
    (tmp_path / "example.toml").write_text(dedent(example), encoding="utf-8")
    (table,) = load_tables(tmp_path).values()
    role = "l1d_inflight_cycles"
    ours = TABLES["haswell-ep"].roles[role]
    assert (table.roles[role].terms, table.roles[role].counters) == (ours.terms, ours.counters)
