"""The event tables: read strictly, whom they hold for, and what every record must say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from setebench.counters.roles import ROLES, Quantity
from setebench.errors import SetebenchError
from setebench.host.processor import Processor
from setebench.native.perf.tables import (
    FOLDER,
    load_tables,
    read_table,
    table_for,
)

TABLES = load_tables()
GOOD = (FOLDER / "zen5.toml").read_text(encoding="utf-8")


def cpu(vendor: str, family: int, model: int, stepping: int | None = 0) -> Processor:
    return Processor(vendor=vendor, family=family, model=model, stepping=stepping)


# -- whom they hold for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "table"),
    [
        (cpu("GenuineIntel", 6, 0x55, 4), "skylake-sp"),
        (cpu("GenuineIntel", 6, 0x55, 7), "cascade-lake-sp"),
        (cpu("AuthenticAMD", 25, 0x11, 1), "zen4"),
    ],
)
def test_a_processor_has_the_table_that_names_it(described: Processor, table: str) -> None:
    assert table_for(described) == TABLES[table]


def test_no_processor_has_two_tables() -> None:
    named = Counter(
        (match.vendor, match.family, model, stepping)
        for table in TABLES.values()
        for match in table.processors
        for model in match.models
        for stepping in (match.steppings or range(16))
    )
    assert named and set(named.values()) == {1}


# -- what every record must say --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_every_role_of_the_hardware_is_there_or_absent_with_a_reason(name: str) -> None:
    table = TABLES[name]
    hardware = {role for role, record in ROLES.items() if record.quantity is not Quantity.SYSTEM}
    unsaid = hardware - set(table.roles) - set(table.absent)
    assert not unsaid, (
        f"a new role: say in every file of {FOLDER} which event plays it, or under [absent] why none does"
    )
    assert all(spec.sources.keys() <= table.sources.keys() for spec in table.roles.values())
    assert all(len(reason) > 20 and "\n" not in reason for reason in table.absent.values())


# -- read strictly ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[roles.cycles]", "[roles.cycle]", "no role 'cycle'"),
        ("event = 0x44", "event = 0x44\ncolour = 1", "colour"),
        ("[absent]", "[absent]\ncycles = 'x'", "'cycles'"),
        ("[roles.cycles]", "[roles.cycles", ""),
        ("event = 0x44", "", "needs one event"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in GOOD
    (tmp_path / "zen5.toml").write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SetebenchError) as refused:
        read_table(tmp_path / "zen5.toml")
    said = str(refused.value)
    assert "\n" not in said and said.startswith(f"{tmp_path / 'zen5.toml'}: ") and says in said
