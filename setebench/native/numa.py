"""Memory nodes: which CPUs and what memory each has, and binding memory to one (mbind, which takes no rights)."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

from setebench.errors import UnsupportedError, UsageError
from setebench.host.tree import Tree, parse_cpu_list
from setebench.machine import MemoryNode

_NODES = "sys/devices/system/node"
_MBIND, _GET_MEMPOLICY = 237, 239  # x86-64 system calls; the C library has no functions for them
_BIND, _STRICT_AND_MOVE, _NODE_OF_ADDRESS = 2, 1 | 2, 1 | 2
_MASK_WORDS, _WORD_BITS = 16, 64

_libc = ctypes.CDLL(None, use_errno=True)

Call = Callable[..., int]


def memory_nodes(tree: Tree) -> tuple[MemoryNode, ...]:
    """The nodes that have memory, by number, with their CPUs and their distances to each other."""
    with_memory = tree.value(f"{_NODES}/has_memory", parse_cpu_list) or ()
    found = []
    for number in with_memory:
        cpus = tree.text(f"{_NODES}/node{number}/cpulist")
        distances = tree.value(f"{_NODES}/node{number}/distance", _numbers) or ()
        online = tree.value(f"{_NODES}/online", parse_cpu_list) or with_memory
        found.append(
            MemoryNode(
                number=number,
                cpus=tree.parsed(f"CPUs of node {number}", cpus, parse_cpu_list) or () if cpus else (),
                distances=tuple(zip(online, distances, strict=False)),
            )
        )
    return tuple(found)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split())


def bind(address: int, size: int, node: int, *, call: Call = _libc.syscall) -> None:
    """Let all pages of a mapping, those that are there and those to come, lie on one node.

    Raises `UsageError` for a node that has no memory, `UnsupportedError` where the system refuses."""
    if not 0 <= node < _MASK_WORDS * _WORD_BITS:
        raise UsageError(f"there is no memory node {node}")
    mask = (ctypes.c_ulong * _MASK_WORDS)()
    mask[node // _WORD_BITS] = 1 << node % _WORD_BITS
    place, length = ctypes.c_void_p(address), ctypes.c_ulong(size)
    bits = ctypes.c_ulong(_MASK_WORDS * _WORD_BITS)
    if call(_MBIND, place, length, _BIND, mask, bits, _STRICT_AND_MOVE) == 0:
        return
    number = ctypes.get_errno()
    if number == errno.EINVAL:
        raise UsageError(f"memory node {node} has no memory that this process may use")
    raise UnsupportedError(
        f"memory can't be bound to node {node} ({os.strerror(number)}); in a container allow mbind (CAP_SYS_NICE)"
    )


def node_of(address: int, *, call: Call = _libc.syscall) -> int | None:
    """The node on which the page at an address lies; None where the system does not say."""
    node = ctypes.c_int(-1)
    place = ctypes.c_void_p(address)
    if call(_GET_MEMPOLICY, ctypes.byref(node), None, ctypes.c_ulong(0), place, _NODE_OF_ADDRESS) != 0:
        return None
    return node.value
