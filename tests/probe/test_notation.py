"""The pattern notation: what it reads, what it writes, and what it says of mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe_strategies import probes

from setebench.errors import ProbeError
from setebench.probe import Base, Probe
from setebench.probe.notation import FORMS, parse, render, statements

A, B = Base("a"), Base("b")

READ = {
    "": Probe(),
    " ;;\n# nothing\n": Probe(),
    "load a": Probe().load(A),
    "load a+64; load b-0x10": Probe().load(A + 64).load(B - 16),
    "load a+3l; load a-2p; load a+1p+2l+8": Probe().load(A + 192).load(A - 8192).load(A + 4096 + 128 + 8),
    "load a size=32 ip=A\nload a after=-1": Probe().load(A, 32, ip="A").load(A, after=-1),
    "load a; load a; load b after=0": Probe().load(A).load(A).load(B, after=0),
    "load a ip_bits=0x5c0": Probe().load(A, ip_bits=0x5C0),
    'load "two words"+8 ip="; #"': Probe().load(Base("two words") + 8, ip="; #"),
    "flush a; flush a how=clwb # kept": Probe().flush(A).flush(A, "clwb"),
    "chase a 9 work=free; chase a 9 work=chained after=-1": (
        Probe().chase(A, 9, work="free").chase(A, 9, work="chained", after=-1)
    ),
    "wait 500; nop 8; add 100; transfer 4": Probe().wait(500).nop(8).add(100).transfer(4),
    "multiply 8 free; multiply 3; multiply 2 chained": Probe().multiply(8, chained=False).multiply(3).multiply(2),
    "start 1 bracket=rdtscp dither=no; stop 1 bracket=rdtscp": (
        Probe().start(1, bracket="rdtscp", dither=False).stop(1, bracket="rdtscp")
    ),
    "repeat 8 advance=64 { load a; prefetch a+64 hint=w }": (
        Probe().repeat(8, Probe().load(A).prefetch(A + 64, "w"), advance=64)
    ),
    "repeat 2 advance=-1p {\n load a\n\n flush a after=-1;\n}\nfence": (
        Probe().repeat(2, Probe().load(A).flush(A, after=-1), advance=-4096).fence()
    ),
}


@pytest.mark.parametrize("text", READ)
def test_reads(text: str) -> None:
    assert parse(text) == READ[text]


@settings(max_examples=150, deadline=None)
@given(probes())
def test_reads_what_it_writes_of_any_probe(probe: Probe) -> None:
    text = render(probe)
    assert parse(text) == probe
    assert "\n" not in text
    assert len(statements(probe)) == len(probe)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("load a; read b", "statement 2: ", "unknown operation 'read'; allowed: load, store"),
        (
            "load a;\n  load",
            "statement 2: ",
            "expected BASE[+OFFSET], found the end of the statement; allowed: load BASE",
        ),
        ("load 5", "statement 1: ", "a base, whose name starts with a letter"),
        ("load a+3x", "statement 1: ", "found '+3x'"),
        ("load a+" + "9" * 5000, "statement 1: ", "as a number"),
        ("load a size=7", "statement 1: ", "8, 16, 32 or 64 bytes, not 7; allowed: load BASE"),
        ("load a size=8 size=8", "statement 1: ", "nothing known by 'size' here, or it is given twice"),
        ('load "\\q"', "statement 1: ", "in quotes as JSON has them"),
        ("load a ip=A ip_bits=1; load a ip=A ip_bits=2", "statement 2: ", "is placed twice"),
        ("multiply 3 some", "statement 1: ", "chained or free, found 'some'"),
        ("repeat 2 { nop 1", "statement 1: ", "its { is never closed"),
        ("repeat 2 { repeat 2 { nop 1 } }", "statement 2: ", "can't hold another repeat"),
        ("nop 1; }", "statement 1: ", "this } closes nothing"),
    ],
)
def test_names_a_mistake_and_its_place(text: str, place: str, said: str) -> None:
    with pytest.raises(ProbeError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith(place)
    assert said in message
    assert "\n" not in message


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('load starep 012x+-={}";#\n\\,é$@._'), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        probe = parse(text)
    except ProbeError as error:
        assert "\n" not in str(error)
    else:
        assert parse(render(probe)) == probe


def test_the_document_says_what_is_true() -> None:
    text = (Path(__file__).parents[2] / "docs" / "notation.md").read_text()
    examples = re.findall(r"(?:^    .+\n)+", text.split("## Examples")[1], re.MULTILINE)
    assert examples
    for example in examples:
        assert parse(example).intervals > 0
    operations = text.split("## Operations")[1].split("## Options")[0]
    named = {statement.split()[0] for statement in re.findall(r"`([^`]+)`", operations)}
    assert set(FORMS) <= named
    options = re.findall(r"^\| `(\w+)=", text.split("## Options")[1], re.MULTILINE)
    assert set(options) == set(re.findall(r"\[(\w+)=", " ".join(FORMS.values())))
