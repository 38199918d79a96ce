"""The machine code of a probe, for people to read. Nothing is run and nothing is calibrated."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping

from iced_x86 import Decoder, Formatter, FormatterSyntax

from setebench.native.stitching import Stitched
from setebench.probe import Probe, notation

ADDRESSES = 1 << 64
"""As a decoder counts them: what lies before the code's begin has a high one."""


def disassemble(probe: Probe) -> Iterator[str]:
    """The probe's code in the order in which it runs, a text for each operation; shared accesses that it calls come
    last. Starts and stops that name no bracket get lfence.

    Raises `ProbeError` for a probe that makes no sense, `UnsupportedError` for an operation that this CPU lacks."""
    stitched = Stitched(probe, "lfence", together=False, to_run=False)
    code, begin = stitched.code, stitched.operations_begin
    stubs = list(zip(stitched.stubs, probe.instruction_addresses, strict=True))
    labels = {(stub[0] - stitched.address) % ADDRESSES: address.label for stub, address in stubs}
    yield _part("driver: enter, and begin a repetition", code[:begin], 0, labels)
    for number, (end, statement) in enumerate(zip(stitched.operation_ends, notation.statements(probe), strict=True)):
        yield _part(f"operation {number}: {statement}", code[begin:end], begin, labels)
        begin = end
    yield _part("driver: end a repetition, and leave", code[begin:], begin, labels)
    for (address, size, first), shared in stubs:
        low = "" if shared.bits is None else f", low 26 bits of its address {shared.bits:#x}"
        title = f"shared instruction address {shared.label}, first used by operation {first}{low}"
        yield _part(title, ctypes.string_at(address, size), address - stitched.address, labels)


def _part(title: str, code: bytes, begin: int, labels: Mapping[int, str]) -> str:
    """A title, and `code`, which lies `begin` bytes from the code's begin (before it where it was placed), decoded.
    `labels` name the places that calls go to."""
    formatter = Formatter(FormatterSyntax.INTEL)
    formatter.space_after_operand_separator = True
    formatter.hex_prefix, formatter.hex_suffix = "0x", ""
    formatter.uppercase_hex = formatter.branch_leading_zeros = False
    formatter.rip_relative_addresses = formatter.show_branch_size = False
    lines = [f"{title} ({len(code)} bytes)"]
    instructions = list(Decoder(64, code, ip=begin % ADDRESSES))
    width = 3 * max((one.len for one in instructions), default=1) - 1
    at = 0
    for one in instructions:
        label, text = labels.get(one.near_branch_target), formatter.format(one)
        text = text if label is None else f"{formatter.format_mnemonic(one)} {label}"
        lines.append(f"  {begin + at:6x}  {code[at : at + one.len].hex(' '):<{width}}  {text}")
        at += one.len
    return "\n".join(lines) + "\n"
