"""The loops of streaming kernels, decoded, against what `setebench.probe.kernels` declares of them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from asm_decoding import READS, WRITES, decode, memory, stitch
from for_all import for_all
from iced_x86 import Instruction, InstructionInfoFactory, Mnemonic, Register

from setebench.native import _engine
from setebench.native.stitching import available
from setebench.probe import Base, Probe
from setebench.probe.kernels import (
    BLOCK_BYTES,
    KERNELS,
    Kernel,
    round_bytes,
)

SNIPPETS = {one["name"]: one for one in _engine.snippets() if one["name"].startswith("stream.")}
WIDTHS = (8, 16, 32, 64)
CASES = {
    f"{kernel.name}-{width}-{'rolled' if rolled else 'unrolled'}": (kernel, width, rolled)
    for kernel in KERNELS.values()
    for width in (WIDTHS if kernel.accesses else (0,))
    for rolled in kernel.forms
}
every_loop = for_all(CASES)

NON_TEMPORAL = {Mnemonic.MOVNTI, Mnemonic.MOVNTPS, Mnemonic.VMOVNTPS}
_factory = InstructionInfoFactory()


def name_of(kernel: Kernel, width: int, rolled: bool) -> str:
    return f"stream.{kernel.name}{f'.{width}' if width else ''}{'.rolled' if rolled else ''}"


def parts(
    kernel: Kernel, width: int, rolled: bool = False
) -> tuple[list[Instruction], list[Instruction], list[Instruction]]:
    """What comes before the loop, the loop, and what comes behind it."""
    code = decode(SNIPPETS[name_of(kernel, width, rolled)]["code"])
    (branch,) = (one for one in code if one.mnemonic == Mnemonic.JNE)
    begin = branch.near_branch_target
    before = [one for one in code if one.ip < begin]
    behind = [one for one in code if one.ip > branch.ip]
    return before, [one for one in code if begin <= one.ip <= branch.ip], behind


def array_of(used: Any) -> int:
    """Which array an operand of a sequential kernel lies in: [rcx], [rcx+rdx], [rcx+rdx*2] or [rcx+rbx]."""
    assert used.base == Register.RCX
    places = {(Register.NONE, 1): 0, (Register.RDX, 1): 1, (Register.RDX, 2): 2, (Register.RBX, 1): 3}
    return places[used.index, used.scale]


def touched(loop: list[Instruction], kinds: set[int]) -> dict[int, list[tuple[int, int]]]:
    """For every array the (place, bytes) of its accesses in one round."""
    found = defaultdict(list)
    for one in loop:
        for used, (_, displacement, size) in zip(
            [each for each in _factory.info(one).used_memory() if each.access in kinds], memory(one, kinds), strict=True
        ):
            found[array_of(used)].append((displacement, size))
    return dict(found)


@every_loop
def test_a_round_reads_and_writes_what_is_declared(kernel: Kernel, width: int, rolled: bool) -> None:
    if kernel.random or not kernel.accesses:
        return
    _, loop, _ = parts(kernel, width, rolled)
    rounds = BLOCK_BYTES // round_bytes(width, rolled)
    whole = [(place, width) for place in range(0, BLOCK_BYTES // rounds, width)]
    reads, writes = touched(loop, READS), touched(loop, WRITES)
    assert {array: sorted(places) for array, places in reads.items()} == dict.fromkeys(kernel.reads, whole)
    assert {array: sorted(places) for array, places in writes.items()} == dict.fromkeys(kernel.writes, whole)
    assert rounds * sum(size for places in reads.values() for _, size in places) == kernel.read_bytes
    assert rounds * sum(size for places in writes.values() for _, size in places) == kernel.written_bytes
    stores = [one for one in loop if memory(one, WRITES)]
    assert all((one.mnemonic in NON_TEMPORAL) == kernel.bypass for one in stores)


@every_loop
def test_a_loop_begins_a_line_of_instructions_wherever_it_comes(kernel: Kernel, width: int, rolled: bool) -> None:
    if not available(name_of(kernel, width, rolled)):
        return
    for nops in (0, 21):
        before = Probe().nop(nops) if nops else Probe()
        stitched = stitch(before.stream(Base("a"), kernel.name, BLOCK_BYTES, width or 8, rolled=rolled))
        code = decode(stitched.code_at(), stitched.address)
        first = stitched.address + (stitched.operation_ends[0] if nops else stitched.operations_begin)
        behind = stitched.address + stitched.operation_ends[-1]
        (branch,) = (one for one in code if one.mnemonic == Mnemonic.JNE and first <= one.ip < behind)
        assert branch.near_branch_target % 64 == 0
