"""Our tables against libpfm4 where it is installed, asked for other processors' PMUs in a process of its own (the
library reads its variables once); without it, one clear line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from recorded_pmus import pmus

from setebench.errors import UnsupportedError, UsageError
from setebench.native.perf.encode import Encoder
from setebench.native.perf.libpfm import Libpfm
from setebench.native.perf.tables import EventSpec, Status, load_tables

ASK = """
import json, sys
from setebench.native.perf.libpfm import Libpfm
from setebench.errors import SetebenchError
library, found = Libpfm(), {}
for name in json.loads(sys.argv[1]):
    try:
        found[name] = [list(library.codes(name)), library.encode(name).config if "unc" not in name else 0]
    except SetebenchError as error:
        found[name] = str(error)
print(json.dumps(found))
"""
CORE_PMUS = {
    "haswell": "hsw",
    "broadwell": "bdw",
    "skylake": "skl",
    "ice-lake": "icl",
    "haswell-ep": "hsw_ep",
    "broadwell-ep": "bdw_ep",
    "skylake-sp": "skx",
    "cascade-lake-sp": "clx",
    "ice-lake-sp": "icx",
    "sapphire-rapids": "spr",
    "granite-rapids": "gnr",
    "zen3": "amd64_fam19h_zen3",
    "zen4": "amd64_fam19h_zen4",
    "zen5": "amd64_fam1ah_zen5",
}
"""What libpfm4 calls the core's PMU; releases differ in which of them they have."""
BOXES = {"haswell-ep": {"uncore_imc": "hswep_unc_imc0", "uncore_ha": "hswep_unc_ha0", "uncore_qpi": "hswep_unc_qpi0"}}
SELECT = 0xFF8CFFFF
"""Event, umask, edge, inversion and counter mask; without the enable bits and whose part is counted."""


@pytest.fixture(scope="module")
def libpfm() -> Libpfm:
    try:
        return Libpfm()
    except UnsupportedError as error:
        pytest.skip(str(error))


def asked(pmu: str, names: list[str]) -> dict[str, list[object] | str]:
    variables = {**os.environ, "LIBPFM_FORCE_PMU": pmu, "LIBPFM_ENCODE_INACTIVE": "1"}
    command = [sys.executable, "-c", ASK, json.dumps(names)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=60)
    answer: dict[str, list[object] | str] = json.loads(done.stdout)
    return answer


def selected(spec: EventSpec) -> list[int]:
    """The words of selection of a record's events; bit 8 of an event is bit 21 of an Intel uncore's word."""
    words = []
    for code in spec.codes:
        event = code.event or 0
        high = (event >> 8) << (21 if spec.pmu.startswith("uncore") else 32)
        words.append(event & 0xFF | high | code.umask << 8 | code.cmask << 24 | code.inv << 23 | code.edge << 18)
    return words


def name_of(pmu: str, source: str) -> str:
    first, _, rest = source.replace(".", ":", 1).partition(":")
    return f"{pmu}::{first}" + (f":{rest.replace('.', '_')}" if rest else "")


@pytest.mark.parametrize("table", CORE_PMUS)
def test_what_is_called_cross_checked_is_what_libpfm_encodes(table: str, libpfm: Libpfm) -> None:
    """Names that this release of the library lacks are left out; at least one table is known to every release."""
    wanted: dict[str, int] = {}
    for spec in load_tables()[table].roles.values():
        box = CORE_PMUS[table] if spec.pmu == "cpu" else BOXES.get(table, {}).get(spec.pmu)
        if spec.status is Status.CROSS_CHECKED and box is not None:
            names = [name_of(box, part) for part in spec.sources["libpfm4"].split(" + ")]
            wanted |= zip(names, selected(spec), strict=True)
    by_pmu = {name.partition("::")[0] for name in wanted}
    found = {
        name: answer
        for pmu in by_pmu
        for name, answer in asked(pmu, [name for name in wanted if name.startswith(f"{pmu}::")]).items()
        if not isinstance(answer, str)
    }
    if not found:
        pytest.skip(f"this release of libpfm4 does not know {CORE_PMUS[table]}")
    mask = SELECT | 1 << 21 | 0xF << 32
    differ = {
        name: (hex(wanted[name]), hex(answer[0][0]))  # type: ignore[index]
        for name, answer in found.items()
        if int(answer[0][0]) & mask != wanted[name]  # type: ignore[index]
    }
    assert differ == {}
    assert len(found) >= 5


def test_without_the_library_there_is_one_line() -> None:
    def missing() -> Libpfm:
        return Libpfm("libpfm-of-another-day.so.4")

    with pytest.raises(UnsupportedError, match="not installed") as refused:
        missing()
    assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match=r"no event 'nosuch'.*not installed") as refused_name:
        Encoder(pmus("guest"), {}, missing).encode("nosuch")
    assert "\n" not in str(refused_name.value)
    assert Encoder(pmus("guest"), {}, missing).encode("page-faults").terms
