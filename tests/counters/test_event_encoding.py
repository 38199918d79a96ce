"""Events as text, and those of the tables, against words known from elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_pmus import pmus

from setebench.errors import SetebenchError
from setebench.native.perf.encode import Term, encode, table_terms
from setebench.native.perf.messages import Bits, Pmu
from setebench.native.perf.tables import EventSpec, load_tables

HASWELL, ZEN, GUEST = (pmus(machine) for machine in ("haswell_ep", "zen5", "guest"))


def terms(machine: str, text: str) -> tuple[Term, ...]:
    return encode(text, pmus(machine))


def configs(machine: str, text: str) -> list[tuple[str, int, int]]:
    return [(each.pmu, each.attributes.config, each.attributes.config1) for each in terms(machine, text)]


# -- words known from elsewhere --------------------------------------------------------------------------------------


L3_TERMS = "event=0xac,umask=0x3f,enallcores,enallslices,sliceid=3,threadmask=3"


@pytest.mark.parametrize(
    ("machine", "text", "config", "config1"),
    [
        ("haswell_ep", "cpu/event=0x48,umask=0x1,cmask=1/", 0x1000148, 0),
        ("haswell_ep", "cpu/event=0xb7,umask=1,offcore_rsp=0x6004007F7/", 0x1B7, 0x6004007F7),
        ("haswell_ep", "cpu/mem-loads/", 0x1CD, 3),
        # the event's upper four bits are bits 32 to 35, as AMD's manuals of the processors have them
        ("zen5", "cpu/event=0x165,umask=0x1F/", 0x100001F65, 0),
        ("zen5", f"amd_l3/{L3_TERMS}/", 0x0303C00000003FAC, 0),
    ],
)
def test_the_word_of_configuration(machine: str, text: str, config: int, config1: int) -> None:
    assert [word[1:] for word in configs(machine, text)] == [(config, config1)]


def test_an_event_is_that_of_every_box_of_its_kind() -> None:
    text = "uncore_imc/cas_count_read/"
    assert configs("haswell_ep", text) == [(f"uncore_imc_{number}", 0x304, 0) for number in (0, 1, 4, 5)]
    assert {term.cpus for term in encode(text, HASWELL)} == {(0, 18)}


# -- refused in one line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "text", "says"),
    [
        ("haswell_ep", "cpu/event=0x48,umask=0x1ff/", "more than the bits"),
        ("haswell_ep", "cpu/event=4x8/", "not a number"),
        ("haswell_ep", "cpu/event=1/x", "no event 'cpu/event=1/x'"),
        ("haswell_ep", "nosuch", "no event 'nosuch'"),
        ("guest", "cpu/event=0x3c/", "no PMU 'cpu'"),
    ],
)
def test_what_cannot_be_encoded_is_refused_in_one_line(machine: str, text: str, says: str) -> None:
    with pytest.raises(SetebenchError) as refused:
        terms(machine, text)
    assert says in str(refused.value) and "\n" not in str(refused.value)


@given(st.text(alphabet="abcpurxmem/:,=*0123456789_-. \n", max_size=30))
def test_no_text_makes_a_traceback(text: str) -> None:
    try:
        found = encode(text, HASWELL)
    except SetebenchError as error:
        assert "\n" not in str(error)
    else:
        assert found


# -- events of the tables --------------------------------------------------------------------------------------------


INTEL_BOX = {
    "event": (Bits("config", 0, 7), Bits("config", 21, 21)),
    "umask": (Bits("config", 8, 15), Bits("config", 32, 55)),
}
"""Formats of Intel's boxes outside of the cores: an extension of events on QPI, one of umasks since Skylake-SP."""


def drawn_from_formats(spec: EventSpec, intel: bool) -> dict[str, Pmu]:
    """PMUs as the kernel would show them to this processor."""
    core = (HASWELL if intel else ZEN)["cpu"]
    if spec.pmu == "cpu":
        return {"cpu": core}
    formats = INTEL_BOX if intel else ZEN["amd_umc_0" if spec.pmu == "amd_umc" else spec.pmu].formats
    return {f"{spec.pmu}_{box}": Pmu(name=f"{spec.pmu}_{box}", type=50 + box, formats=formats) for box in (0, 1)}


@pytest.mark.parametrize("name", load_tables())
def test_every_record_of_every_table_fits_the_formats_of_its_pmus(name: str) -> None:
    table = load_tables()[name]
    intel = table.processors[0].vendor == "GenuineIntel"
    words: dict[tuple[str, tuple[object, ...]], str] = {}
    for role, spec in table.roles.items():
        here = drawn_from_formats(spec, intel)
        terms = table_terms(spec, here)
        assert len(terms) == len(spec.codes) * len(here)
        key = spec.pmu, tuple((term.attributes.config, term.attributes.config1) for term in terms)
        assert key not in words, f"{role} and {words.get(key)} are the same event"
        words[key] = role
