"""Which data object a sampled load's address lies in: a variable, the heap, a stack, a mapped file, mapped memory."""

from __future__ import annotations

from pathlib import PurePath

from setebench.diagnose.observing.memory import Mapping, Memory
from setebench.diagnose.observing.symbols import symbols
from setebench.diagnose.records import UNKNOWN


def data_object(memory: Memory, address: int) -> str:
    """A name for people. Memory that a program mapped for itself has none but where it begins and its size."""
    mapping = memory.find(address)
    if mapping is None:
        return UNKNOWN
    # variables that begin as zeros lie behind the file's own bytes, in memory without a file
    file = mapping if mapping.is_file else memory.find(mapping.start - 1)
    name = _variable(file, address) if file is not None and file.is_file else None
    if name is not None and file is not None:
        return f"{name} [{PurePath(file.path).name}]"
    if mapping.is_file or mapping.path.startswith("["):
        return mapping.path
    return f"memory mapped at {mapping.start:#x}, {(mapping.end - mapping.start) / (1 << 20):.3g} MiB"


def _variable(file: Mapping, address: int) -> str | None:
    table = symbols(file.path, file.inode)
    return None if table is None else table.variable(file.offset + address - file.start)
