"""Every snippet's bytes against its declared facts."""

from __future__ import annotations

import re
from typing import Any

from asm_decoding import BASE_REGISTERS, READS, REGISTER_NAMES, WRITES, decode, memory, registers
from for_all import for_all
from iced_x86 import CpuidFeature, Decoder, Mnemonic, Register

from setebench.native import _engine

OFFSET, COUNT, SLOT, ROW, TARGET, RESULT, ROW_SIZE, RESULT_SIZE, SPACING = range(1, 10)
PLACEHOLDER = (0x12345678).to_bytes(4, "little")

TABLE = _engine.snippets()
IDS = [f"{one['name']}-{REGISTER_NAMES[BASE_REGISTERS[one['base']]] if one['base'] >= 0 else 'any'}" for one in TABLE]
every_snippet = for_all({name: (one,) for name, one in zip(IDS, TABLE, strict=True)})

FLAGS = {
    **dict.fromkeys(("INTEL8086", "INTEL186", "INTEL286", "INTEL386", "INTEL486", "X64", "CMOV", "CPUID", "TSC"), ""),
    **dict.fromkeys(("SSE", "SSE2", "PAUSE", "MULTIBYTENOP"), ""),
    "AVX": "avx",
    "AVX512F": "avx512f",
    "CLFSH": "clflush",
    "CLFLUSHOPT": "clflushopt",
    "CLWB": "clwb",
    "PREFETCHW": "3dnowprefetch",
    "RDTSCP": "rdtscp",
    "RDPRU": "rdpru",
}
"""CPUID features as the decoder names them, and the kernel's flag; "" for what every x86-64 CPU has."""
IMPLIED = {"avx512f": {"avx"}}
FEATURE_NAMES = {value: name for name, value in vars(CpuidFeature).items() if isinstance(value, int)}


SCRATCH = {"rax", "rdx", "zmm0", "zmm1", "zmm2"}
"""What any snippet may use; asm/snippet.inc documents this and the following."""
MAY_USE = {
    "rbx": r"(start|stop)\.cpuid|fence\.serialize|driver\.(enter|leave)|stream\..*|chase\d+(\.free)?",
    "rcx": r"stream\..*|(start|stop)\.(cpuid|rdtscp|rdpru)|fence\.serialize|driver\.enter"
    r"|address\..*|depend\.(latest|use\d+)",
    "rsp": r"(start|stop)\..*|driver\.(enter|leave|result)|barrier|call|return",
    "rbp": r"driver\.(enter|leave)|address\.advance|repeat\.(begin|end)",
    "r8": r"driver\.enter",
    "rsi": r"driver\.enter",
    "rdi": r"driver\.enter",
    "r11": r"repeat\.(begin|end)",
    "r12": r"driver\.(enter|leave|base|touch|next)|address\.row",
    "r13": r"driver\.(enter|leave|result|next)",
    "r14": r"driver\.(enter|leave|next)",
    "r15": r"driver\.(enter|leave)|dither",
    **{f"zmm{number}": rf"depend\.(keep|use){number}|driver\.vzeroupper" for number in range(8, 16)},
    **{f"zmm{number}": r"driver\.vzeroupper|stream\..*" for number in range(3, 8)},
}
GLUE = r"(driver|address|depend|repeat)\..*|call|return|barrier|dither"
"""Snippets between and around operations."""
MOVES_STACK = r"driver\.(enter|leave)|call|return"


def accesses(snippet: dict[str, Any], kinds: set[int]) -> list[tuple[int, int, int]]:
    return [one for instruction in decode(snippet["code"]) for one in memory(instruction, kinds)]


@every_snippet
def test_needs_the_cpu_feature_it_declares(snippet: dict[str, Any]) -> None:
    needed = {FLAGS[FEATURE_NAMES[one]] for line in decode(snippet["code"]) for one in line.cpuid_features()} - {""}
    for flag in list(needed):
        needed -= IMPLIED.get(flag, set())
    assert needed == ({snippet["feature"]} - {""})


@every_snippet
def test_accesses_its_base_plus_the_offset(snippet: dict[str, Any]) -> None:
    """The operand of an access is [base + offset]; a chase takes that address first and follows what it holds."""
    if snippet["base"] < 0 or re.fullmatch(GLUE, snippet["name"]):
        return
    first = decode(snippet["code"])[0]
    assert first.memory_base == BASE_REGISTERS[snippet["base"]]
    assert first.memory_index == Register.NONE
    assert first.memory_displacement == int.from_bytes(PLACEHOLDER, "little")
    assert snippet["fields"][0][0] == OFFSET
    if snippet["name"].startswith("chase"):
        assert first.mnemonic == Mnemonic.LEA
        assert {base for base, _, _ in accesses(snippet, READS)} == {Register.RAX}
        assert first.op0_register == Register.RAX
    else:
        assert len(decode(snippet["code"])) == 1


# -- patched fields ----------------------------------------------------------------------------------------------------


def carried(code: bytes, kind: int, end: int) -> int:
    """The value in the field of `code` that ends at `end`, as the instruction means it."""
    decoder = Decoder(64, code, ip=0)
    for instruction in decoder:
        if not instruction.ip <= end - 4 < instruction.ip + instruction.len:
            continue
        places, place = decoder.get_constant_offsets(instruction), end - 4 - instruction.ip
        if kind == TARGET:
            assert (places.immediate_offset, places.immediate_size) == (place, 4)
            return instruction.near_branch_target - instruction.next_ip
        if places.has_displacement and places.displacement_offset == place:
            assert places.displacement_size == 4
            return instruction.memory_displacement
        assert (places.immediate_offset, places.immediate_size) == (place, 4)
        wide = instruction.op0_kind == 0 and instruction.op0_register in _WIDE
        return instruction.immediate32to64 if wide else instruction.immediate32
    raise AssertionError(f"no instruction holds the field that ends at {end}")


_WIDE = {getattr(Register, name) for name in ("RCX", "R12", "R13", "RBP")}


every_field = for_all(
    {
        f"{name}-{kind}-{end}": (snippet["code"], kind, end)
        for snippet, name in zip(TABLE, IDS, strict=True)
        for kind, end in snippet["fields"]
    }
)


@every_field
def test_a_patched_field_reaches_the_instruction(code: bytes, kind: int, end: int) -> None:
    unsigned = kind in (COUNT, SLOT, ROW, RESULT, ROW_SIZE, RESULT_SIZE, SPACING)
    for value in (0x0BADCAFE if unsigned else -0x0BADCAFE, 1):
        patched = code[: end - 4] + value.to_bytes(4, "little", signed=True) + code[end:]
        found = carried(patched, kind, end)
        assert (found - value) % 2**64 == 0
        before, after = decode(code), decode(patched)
        assert [one.ip for one in before] == [one.ip for one in after]
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


@every_snippet
def test_every_placeholder_is_patched(snippet: dict[str, Any]) -> None:
    ends = {end for kind, end in snippet["fields"] if kind != TARGET}
    found = {match.end() for match in re.finditer(re.escape(PLACEHOLDER), snippet["code"])}
    assert found == ends


# -- what it leaves alone ----------------------------------------------------------------------------------------------


@every_snippet
def test_uses_only_documented_registers(snippet: dict[str, Any]) -> None:
    own = {REGISTER_NAMES[BASE_REGISTERS[snippet["base"]]]} if snippet["base"] >= 0 else set()
    for instruction in decode(snippet["code"]):
        for register in registers(instruction, READS | WRITES) - SCRATCH - own:
            assert re.fullmatch(MAY_USE[register], snippet["name"]), f"{instruction} uses {register}"
        changed = registers(instruction, WRITES)
        if not re.fullmatch(GLUE, snippet["name"]):
            stream = snippet["name"].startswith("stream.")
            also = {"rbx", "rcx"} | ({f"zmm{n}" for n in range(3, 8)} if stream else set())
            assert changed <= SCRATCH | also, f"{instruction} changes {changed}"
            assert not stream or "zmm1" not in changed
        if not re.fullmatch(MOVES_STACK, snippet["name"]):
            assert "rsp" not in changed
