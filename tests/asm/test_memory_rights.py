"""No memory of ours is ever writable and executable at once, and none has an executable stack."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from asm_decoding import stitch

from setebench.native import _engine
from setebench.notation import parse

PT_LOAD, PT_GNU_STACK = 1, 0x6474E551
EXECUTE, WRITE = 1, 2
ASSEMBLY = sorted((Path(__file__).parents[2] / "asm").glob("*.S"))


def program_headers(image: bytes) -> list[tuple[int, int]]:
    """(type, flags) of each program header of a 64-bit ELF file (System V gABI, chapter 5)."""
    assert image[:5] == b"\x7fELF\x02"
    (offset,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    return [struct.unpack_from("<II", image, offset + size * index) for index in range(count)]


def test_the_extension_asks_for_no_executable_stack_and_no_writable_code() -> None:
    headers = program_headers(Path(_engine.__file__).read_bytes())
    stacks = [flags for kind, flags in headers if kind == PT_GNU_STACK]
    loads = [flags for kind, flags in headers if kind == PT_LOAD]
    assert stacks and not any(flags & EXECUTE for flags in stacks)
    assert any(flags & EXECUTE for flags in loads)
    assert not any(flags & EXECUTE and flags & WRITE for flags in loads)


@pytest.mark.parametrize("path", ASSEMBLY, ids=lambda path: path.name)
def test_every_assembly_file_ends_with_the_stack_note(path: Path) -> None:
    assert path.read_text().split()[-1] == "END_OF_FILE"


def mappings() -> list[tuple[int, int, str]]:
    """(begin, end, rights) of every mapping of this process."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights = line.split()[:2]
        begin, end = addresses.split("-")
        found.append((int(begin, 16), int(end, 16), rights))
    return found


@pytest.mark.parametrize(
    "text", ["load a", "load a ip=A", "load a ip_bits=0; load b ip_bits=0x3fffffc; store c", "nop 60000"]
)
def test_code_can_be_run_and_read_only(text: str) -> None:
    stitched = stitch(parse(text))
    ours = [(stitched.address, stitched.code_bytes), *((address, size) for address, size, _ in stitched.stubs)]
    for address, size in ours:
        touched = [rights for begin, end, rights in mappings() if begin < address + size and address < end]
        assert touched
        assert set(touched) == {"r-xp"}
    if any(address < stitched.address for address, _, _ in stitched.stubs):
        around = range(stitched.address - (1 << 26), stitched.address + (1 << 26))
        near = [rights for begin, _, rights in mappings() if begin in around]
        assert not any("w" in rights and "x" in rights for rights in near)


def test_code_goes_with_its_probe() -> None:
    def mapped_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) * 4096

    before = mapped_bytes()
    for _ in range(40):
        stitch(parse("load a ip_bits=64"))
    assert mapped_bytes() - before < 20 * (1 << 26)
