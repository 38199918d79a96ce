"""Limits that control groups put on this process: CPU quota and memory, under cgroup version 1 and 2.

Past a memory limit the kernel kills some process of the group. What counts is what all of them use, less page cache
that nobody used lately, which the kernel takes back first.

A quota is no share: when it is used up the process stands still for tens of milliseconds, in the middle of a timing.
"""

from __future__ import annotations

import re
from math import inf
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from setebench.host.tree import Tree

Unlimited = Literal["unlimited"]
MOUNT = "sys/fs/cgroup"
NO_LIMIT_BYTES = 1 << 60  # version 1 writes "no memory limit" as a number near 2**63
MEMORY = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""The files of a group's limit and of its use, and the line of its statistics that counts page cache to be taken back,
of version 2 and of version 1."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`cpu_quota` is in CPUs (0.5 is half of one); `memory_left_bytes` is what the groups may still take of the memory
    they are limited to; "unlimited" where groups were read and none limits."""

    cpu_quota: float | Unlimited | None = None
    memory_left_bytes: float | Unlimited | None = None


def read_limits(tree: Tree) -> Limits:
    """The narrowest limit of the groups that this process is in; None where the groups can't be read."""
    own = Tree(tree.root)
    quotas = [_quota(own, folder) for folder in _folders(own, "cpu")]
    memory = [_memory_left(own, folder) for folder in _folders(own, "memory")]
    if own.problems:  # reported without their paths: names of groups can name users and containers
        tree.problems.append(f"{MOUNT}: a limit can't be read or understood")
    return Limits(cpu_quota=_least(quotas), memory_left_bytes=_least(memory))


def _folders(tree: Tree, controller: str) -> list[str]:
    """The folders of this process's groups for a controller, and of those around them. Groups outside of the mount
    (with "..") are left out: their limits can't be read."""
    folders: list[str] = []
    for controllers, group in re.findall(r"^\d+:(.*?):/(.*)$", tree.text("proc/self/cgroup") or "", re.MULTILINE):
        mount = f"{MOUNT}/{controller}" if controllers else MOUNT  # version 2 has one tree for all
        mounted = tree.exists(mount if controllers else f"{MOUNT}/cgroup.controllers")
        path = PurePosixPath(group)
        if mounted and controller in (controllers or controller).split(",") and ".." not in path.parts:
            folders += [f"{mount}/{folder}" for folder in (path, *path.parents)]
    return folders


def _quota(tree: Tree, folder: str) -> float | None:
    """CPUs; infinity without a quota, None for one that is not understood."""
    texts = [tree.text(f"{folder}/{name}") for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")]
    said = " ".join(filter(None, texts))
    return tree.parsed(folder, said, _parse_quota) if said else inf


def _parse_quota(text: str) -> float:
    """CPUs of "50000 100000" (microseconds of quota and period); infinity for "max" or a quota of -1."""
    quota, period = text.split()
    return inf if quota in ("max", "-1") else int(quota) / max(1, int(period))


def _memory_left(tree: Tree, folder: str) -> float | None:
    """Bytes that a group may still take; infinity without a limit, None for what is not understood."""
    for limiting, using, reclaimable in MEMORY:
        limit = tree.value(f"{folder}/{limiting}", lambda text: inf if text == "max" else int(text))
        if limit is None and tree.exists(f"{folder}/{limiting}"):
            return None
        if limit is not None and limit < NO_LIMIT_BYTES:
            cache = re.search(rf"^{reclaimable} (\d+)$", tree.text(f"{folder}/memory.stat") or "", re.MULTILINE)
            used = (tree.value(f"{folder}/{using}", int) or 0) - (int(cache[1]) if cache else 0)
            return float(max(0, limit - max(0, used)))
    return inf


def _least(limits: list[float | None]) -> float | Unlimited | None:
    """The smallest limit; None where there are none, or where one was not understood, which may be the smallest."""
    known = [limit for limit in limits if limit is not None]
    if not limits or len(known) < len(limits):
        return None
    return "unlimited" if min(known) == inf else float(min(known))
