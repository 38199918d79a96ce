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

from setebench.host.tree import Tree, parse_number, shown

Unlimited = Literal["unlimited"]
MOUNT = "sys/fs/cgroup"
NO_LIMIT_BYTES = 1 << 60  # version 1 writes "no memory limit" as a number near 2**63
MEMORY_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
MEMORY_2 = ("memory.max", "memory.current", "inactive_file")
"""The files of a group's limit and of its use, and the line of its statistics that counts page cache to be taken back,
in both versions."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`cpu_quota` is in CPUs (0.5 is half of one); `memory_left_bytes` is what the groups may still take of the memory
    they are limited to; "unlimited" where groups were read and none limits."""

    cpu_quota: float | Unlimited | None = None
    memory_left_bytes: float | Unlimited | None = None


def read_limits(tree: Tree) -> Limits:
    """The narrowest limit of the groups that this process is in; None where the groups can't be read."""
    own = Tree(tree.root)
    groups = _groups(own.text("proc/self/cgroup") or "")
    version_2 = bool("" in groups and own.exists(f"{MOUNT}/cgroup.controllers"))
    quotas = [_quota(own, folder, version_2) for folder in _folders(own, groups, "cpu", version_2)]
    names = MEMORY_2 if version_2 else MEMORY_1
    memory = [_memory_left(own, folder, names) for folder in _folders(own, groups, "memory", version_2)]
    limits = Limits(cpu_quota=_least(quotas), memory_left_bytes=_least(memory))
    if own.problems:  # reported without their paths: names of groups can name users and containers
        tree.problems.append(f"{MOUNT}: a limit can't be read or understood")
    return limits


def _groups(text: str) -> dict[str, str]:
    """Group by controller from proc/self/cgroup; the unified hierarchy's controller is "".

    Groups outside of the mount (with "..") are left out: their limits can't be read."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and ".." not in PurePosixPath(parts[2]).parts:
            groups.update(dict.fromkeys(parts[1].split(","), parts[2]))
    return groups


def _folders(tree: Tree, groups: dict[str, str], controller: str, version_2: bool) -> list[str]:
    """The folders of a controller's group and of those around it."""
    mount, group = (MOUNT, groups[""]) if version_2 else (f"{MOUNT}/{controller}", groups.get(controller))
    if group is None or not tree.exists(mount):
        return []
    path = PurePosixPath(group.lstrip("/"))
    return [str(PurePosixPath(mount) / folder) for folder in (path, *path.parents)]


def _quota(tree: Tree, folder: str, version_2: bool) -> float | None:
    """CPUs; infinity without a quota, None for one that is not understood."""
    names = ("cpu.max",) if version_2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    texts = [tree.text(f"{folder}/{name}") for name in names]
    return inf if None in texts else tree.parsed(folder, " ".join(filter(None, texts)), _parse_quota)


def _parse_quota(text: str) -> float:
    """CPUs of "50000 100000" (microseconds of quota and period); infinity for "max" or a quota of -1."""
    match = re.fullmatch(r"(max|-1|\d{1,18})\s+([1-9]\d{0,17})", text, re.ASCII)
    if not match:
        raise ValueError(f"not a CPU quota: {shown(text)}")
    return inf if match[1] in ("max", "-1") else int(match[1]) / int(match[2])


def _memory_left(tree: Tree, folder: str, names: tuple[str, str, str]) -> float | None:
    """Bytes that a group may still take; infinity without a limit, None for what is not understood."""
    text = tree.text(f"{folder}/{names[0]}")
    if text in (None, "max"):
        return inf
    limit = tree.parsed(f"{folder}/{names[0]}", text or "", parse_number)
    if limit is None or limit >= NO_LIMIT_BYTES:
        return None if limit is None else inf
    cache = re.search(rf"^{names[2]} (\d+)$", tree.text(f"{folder}/memory.stat") or "", re.MULTILINE)
    used = (tree.value(f"{folder}/{names[1]}", parse_number) or 0) - (int(cache[1]) if cache else 0)
    return float(max(0, limit - max(0, used)))


def _least(limits: list[float | None]) -> float | Unlimited | None:
    """The smallest limit; None where there are none, or where one was not understood, which may be the smallest."""
    known = [limit for limit in limits if limit is not None]
    if not limits or len(known) < len(limits):
        return None
    return "unlimited" if min(known) == inf else min(known)
