"""Whole probes as machine code: what is decoded, where shared code lies, what depends on what, what is stored."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from asm_decoding import READS, WRITES, decode, memory, registers, stitch, stub_code, trace
from for_all import for_all
from hypothesis import assume, given, settings
from iced_x86 import FlowControl, Instruction, Mnemonic, Register
from probe_strategies import Choices, timed_probes

from setebench.errors import ProbeError
from setebench.native.stitching import Stitched, available
from setebench.probe import ACCESS_SIZES, BRACKETS, FENCES, FLUSHES, HINTS, IP_SPAN_BITS, Kind, Operation, Probe
from setebench.probe.notation import parse

IP_SPAN = 1 << IP_SPAN_BITS
PREFETCHES = tuple(getattr(Mnemonic, f"PREFETCH{hint.upper()}") for hint in HINTS)
FLUSH_MNEMONICS = tuple(getattr(Mnemonic, how.upper()) for how in FLUSHES)


def choices(**kwargs: Any) -> Choices:
    """What this CPU runs, with few bases, so that some lie in registers and some don't."""
    return Choices(
        sizes=tuple(size for size in ACCESS_SIZES if available(f"load{size}")),
        hints=tuple(name for name in HINTS if available(f"prefetch.{name}")),
        flushes=tuple(name for name in FLUSHES if available(f"flush.{name}")),
        fences=FENCES,
        brackets=(None, *(name for name in BRACKETS if available(f"stop.{name}"))),
        bases=tuple("abcdefgh"),
        by_kind=True,
        **kwargs,
    )


def stitched_or_refused(probe: Probe) -> Stitched:
    """The code; probes that need more registers than there are for kept values are no examples."""
    try:
        return stitch(probe, to_run=True)
    except ProbeError as error:
        assume("addresses that depend on them later" not in str(error))
        raise


# -- decoding ----------------------------------------------------------------------------------------------------------


def does_access(instruction: Instruction, operation: Operation) -> bool:
    """Whether the instruction is the access that the operation asks for."""
    if operation.kind == Kind.PREFETCH:
        return instruction.mnemonic == PREFETCHES[HINTS.index(operation.variant)]
    if operation.kind == Kind.FLUSH:
        return instruction.mnemonic == FLUSH_MNEMONICS[FLUSHES.index(operation.variant)]
    if operation.kind == Kind.STORE:
        return [size for _, _, size in memory(instruction, WRITES)] == [operation.size]
    reads = [size for base, _, size in memory(instruction, READS) if base not in (Register.R12, Register.RSP)]
    return reads == [operation.size] and not memory(instruction, WRITES)


@settings(max_examples=120, deadline=None)
@given(timed_probes(choices(extra=("transfer", "barrier"))))
def test_any_probe_becomes_its_operations_in_order(probe: Probe) -> None:
    stitched = stitched_or_refused(probe)
    code = decode(stitched.code, stitched.address)
    assert code[-1].flow_control == FlowControl.RETURN
    assert sum(one.flow_control == FlowControl.RETURN for one in code) == 1
    starts = {one.ip - stitched.address for one in code}
    assert {stitched.operations_begin, *stitched.operation_ends} <= starts
    assert sorted(stitched.operation_ends) == stitched.operation_ends
    assert len(stitched.operation_ends) == len(probe)
    for number, operation in enumerate(probe.operations):
        ran = list(trace(stitched, probe, number))
        if operation.operand is not None:
            found = sum(does_access(one, operation) for one in ran)
            # a chase has several steps in its code
            assert found == 1 or (operation.kind == Kind.CHASE and found > 1), [str(one) for one in ran]
        elif operation.kind in (Kind.NOP, Kind.ADD, Kind.MULTIPLY):
            assert len(ran) == operation.count
    for index, (_, _, first) in enumerate(stitched.stubs):
        shared = stub_code(stitched, index)
        assert shared[-1].flow_control == FlowControl.RETURN
        assert len(shared) == 2
        assert does_access(shared[0], list(probe.operations)[first])


# -- shared instruction addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0, 1, 0x5C0, 0xFFC, 0x2345678, IP_SPAN - 4096, IP_SPAN - 9, IP_SPAN - 1])
@pytest.mark.parametrize("statement", ["load a", "store a size=16", "prefetch a hint=nta"])
def test_a_placed_access_lies_at_its_low_bits(bits: int, statement: str) -> None:
    probe = parse(f"{statement} ip=A ip_bits={bits}; {statement} ip=A; {statement}")
    stitched = stitch(probe)
    ((address, _, _),) = stitched.stubs
    assert address % IP_SPAN == bits
    first, second, alone = (list(trace(stitched, probe, number)) for number in range(3))
    operation = next(iter(probe.operations))
    assert [one.ip for one in first if does_access(one, operation)] == [address]
    assert [one.ip for one in second if does_access(one, operation)] == [address]
    assert [one.ip for one in alone if does_access(one, operation)] != [address]
    # the code before it is whole: a placed access once overwrote the driver where the two met
    assert stitched.code[: stitched.operations_begin] == stitch(parse(statement)).code[: stitched.operations_begin]


# -- dependent addresses -----------------------------------------------------------------------------------------------


def access_depends(probe: Probe, source: int, target: int) -> bool:
    """Whether the address of `target`'s access is computed from what the load of operation `source` brought."""
    stitched = stitch(probe)
    operations = list(probe.operations)
    tainted: set[str] = set()
    loaded = False
    for number in range(source, target + 1):
        for one in trace(stitched, probe, number):
            if number == target and does_access(one, operations[target]):
                return bool(registers_of_address(one) & tainted)
            is_source = number == source and not loaded and does_access(one, operations[source])
            loaded = loaded or is_source
            if is_source or registers(one, READS) & tainted:
                tainted |= registers(one, WRITES)
            else:
                tainted -= registers(one, WRITES)
    raise AssertionError("the target has no access")


def registers_of_address(instruction: Instruction) -> set[str]:
    names = {Register.RAX: "rax", Register.RCX: "rcx", Register.RSI: "rsi", Register.RDI: "rdi"}
    return {names.get(instruction.memory_base, str(instruction.memory_base))}


SOURCES = ("load a", "load a size=16 ip=A ip_bits=64", "chase a 2 work=free", "chase a 2 size=16")
BETWEEN = (
    "",
    "fence; start; stop; ",
    "add 3; transfer 2; multiply 2; wait 9; ",
    "load c size=16; load d after=-1; load e after=-1; ",
    "repeat 2 advance=64 { load c; load d after=-1 }; store c ip=B; barrier; ",
)
TARGETS = ("load b+8", "store b", "prefetch b", "flush b", "load b size=16 ip=T", "chase b 3")


@for_all({repr(case): case for case in product(SOURCES, BETWEEN, TARGETS)})
def test_after_makes_the_address_depend(source: str, between: str, target: str) -> None:
    last = len(parse(f"{source}; {between}{target}")) - 1
    assert access_depends(parse(f"{source}; {between}{target} after=0"), 0, last)
    assert not access_depends(parse(f"{source}; {between}{target}"), 0, last)
