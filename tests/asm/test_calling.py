"""What a stitched probe leaves behind for its caller, and that no memory is ever writable and executable at once."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
from asm_decoding import REGISTER_NAMES, decode, stitch
from elftools.elf.constants import P_FLAGS
from elftools.elf.elffile import ELFFile
from iced_x86 import Mnemonic

from setebench.native import _engine
from setebench.native.memory import SMALL_PAGE, map_region
from setebench.probe.notation import parse


def test_what_belongs_to_a_caller_is_saved_and_put_back() -> None:
    """System V ABI for x86-64, 3.2.1; test_snippets.py shows that nothing in between moves the stack."""
    code = {one["name"]: decode(one["code"]) for one in _engine.snippets()}
    pushed = [one.op0_register for one in code["driver.enter"] if one.mnemonic == Mnemonic.PUSH]
    popped = [one.op0_register for one in code["driver.leave"] if one.mnemonic == Mnemonic.POP]
    assert {REGISTER_NAMES[each] for each in pushed} == {"rbx", "rbp", "r12", "r13", "r14", "r15"}
    assert popped == pushed[::-1]
    changed = (Mnemonic.STD, Mnemonic.LDMXCSR, Mnemonic.VLDMXCSR)
    assert not any(one.mnemonic in changed for each in code.values() for one in each)


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("load a; store bad; load a", 1),
        ("load a; load bad ip=A; load a", 1),
        ("load a ip=A ip_bits=0x40; load b ip=A; load bad ip=A; load a ip=A", 2),
        ("store a; repeat 3 { load a ip=A; load bad ip=A }", 3),
        ("fence; chase bad 5", 1),
    ],
)
def test_a_fault_names_its_operation(text: str, operation: int) -> None:
    probe = parse(text)
    stitched = stitch(probe, to_run=True)
    region = map_region(SMALL_PAGE, SMALL_PAGE, True)
    row = [[8 if base.name == "bad" else region.address for base in probe.bases]]
    _engine.guard_install()
    results, code = np.zeros((1, stitched.intervals), dtype=np.int64), (stitched.address, stitched.code_bytes)
    fault = _engine.run(*code, ~np.array(row), results, np.zeros(9, np.int32), None, None)
    assert fault is not None and (fault[0], fault[2]) == (signal.SIGSEGV, 8)
    assert stitched.operation_at(fault[1]) == operation


# -- no memory of ours is ever writable and executable at once, and none has an executable stack ---------------------


def test_the_extension_asks_for_no_executable_stack_and_no_writable_code() -> None:
    execute, write = P_FLAGS.PF_X, P_FLAGS.PF_W
    with Path(_engine.__file__).open("rb") as file:
        segments = [(one["p_type"], one["p_flags"]) for one in ELFFile(file).iter_segments()]
    stacks, loads = ([flags for kind, flags in segments if kind == name] for name in ("PT_GNU_STACK", "PT_LOAD"))
    assert stacks and not any(flags & execute for flags in stacks)
    assert any(flags & execute for flags in loads)
    assert not any(flags & execute and flags & write for flags in loads)


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
@pytest.mark.parametrize(("to_run", "rights_of_code"), [(True, "r-xp"), (False, "r--p")], ids=["to_run", "to_read"])
def test_code_can_be_run_and_read_only(text: str, to_run: bool, rights_of_code: str) -> None:
    stitched = stitch(parse(text), to_run=to_run)
    ours = [(stitched.address, stitched.code_bytes), *((address, size) for address, size, _ in stitched.stubs)]
    for address, size in ours:
        touched = [rights for begin, end, rights in mappings() if begin < address + size and address < end]
        assert touched
        assert set(touched) == {rights_of_code}
    if any(address < stitched.address for address, _, _ in stitched.stubs):
        around = range(stitched.address - (1 << 26), stitched.address + (1 << 26))
        near = [rights for begin, _, rights in mappings() if begin in around]
        assert not any("w" in rights and "x" in rights for rights in near)
