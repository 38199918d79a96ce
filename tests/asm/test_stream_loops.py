"""The loops of streaming kernels, decoded: where they lie, and which stores go past the caches. That they read and
write what `setebench.probe.kernels` declares is tested where they run, in tests/hardware/test_streams.py."""

from __future__ import annotations

from asm_decoding import WRITES, decode, memory, stitch
from for_all import for_all
from iced_x86 import Mnemonic

from setebench.native.stitching import available
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, KERNELS, Kernel

CASES = {
    f"stream.{kernel.name}{f'.{width}' if width else ''}{'.rolled' if rolled else ''}": (kernel, width, rolled)
    for kernel in KERNELS.values()
    for width in ((8, 16, 32, 64) if kernel.accesses else (0,))
    for rolled in kernel.forms
}
NON_TEMPORAL = {Mnemonic.MOVNTI, Mnemonic.MOVNTPS, Mnemonic.VMOVNTPS}


@for_all({name: (name, *case) for name, case in CASES.items()})
def test_a_loop_begins_a_line_of_instructions_wherever_it_comes(
    name: str, kernel: Kernel, width: int, rolled: bool
) -> None:
    stitch(Probe())  # indexes the snippets
    if not available(name):
        return
    for nops in (0, 21):
        before = Probe().nop(nops) if nops else Probe()
        stitched = stitch(before.stream(Base("a"), kernel.name, BLOCK_BYTES, width or 8, rolled=rolled))
        code = decode(stitched.code, stitched.address)
        first = stitched.address + (stitched.operation_ends[0] if nops else stitched.operations_begin)
        behind = stitched.address + stitched.operation_ends[-1]
        (branch,) = (one for one in code if one.mnemonic == Mnemonic.JNE and first <= one.ip < behind)
        assert branch.near_branch_target % 64 == 0
        stores = [one for one in code if branch.near_branch_target <= one.ip < branch.ip and memory(one, WRITES)]
        assert bool(stores) == bool(kernel.writes)
        assert all((one.mnemonic in NON_TEMPORAL) == kernel.bypass for one in stores)
