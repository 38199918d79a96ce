"""Limits that control groups put on this process: CPU quota and memory, under cgroup version 1 and 2.

Past a memory limit the kernel kills some process of the group. What counts is what all of them use, less page cache
that nobody used lately, which the kernel takes back first.

A quota is no share: when it is used up the process stands still for tens of milliseconds, in the middle of a timing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from setebench.host.tree import Tree, parse_number, shown

Unlimited = Literal["unlimited"]
MOUNT = "sys/fs/cgroup"
NO_LIMIT_BYTES = 1 << 60
"""Version 1 writes "no memory limit" as a number near 2**63."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`cpu_quota` is in CPUs (0.5 is half of one); `memory_left_bytes` is what the groups may still take of the memory
    they are limited to; "unlimited" where groups were read and none limits."""

    cpu_quota: float | Unlimited | None = None
    memory_bytes: int | Unlimited | None = None
    memory_left_bytes: int | Unlimited | None = None


def read_limits(tree: Tree) -> Limits:
    """The narrowest limit of the groups that this process is in; None where the groups can't be read."""
    own = Tree(tree.root)
    limits = _limits(own)
    if own.problems:  # reported without their paths: names of groups can name users and containers
        tree.problems.append(f"{MOUNT}: a limit can't be read or understood")
    return limits


def _limits(tree: Tree) -> Limits:
    groups = _groups(tree.text("proc/self/cgroup") or "")
    if "" in groups and tree.exists(f"{MOUNT}/cgroup.controllers"):
        folders = _upwards(MOUNT, groups[""])
        quota = _narrowest(tree, [f"{folder}/cpu.max" for folder in folders], parse_quota)
        names = ("memory.max", "memory.current", "inactive_file")
    else:
        quota = _quota_1(tree, groups)
        there = "memory" in groups and tree.exists(f"{MOUNT}/memory")
        folders = _upwards(f"{MOUNT}/memory", groups["memory"]) if there else []
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    if not folders:
        return Limits(cpu_quota=quota)
    memory = _narrowest(tree, [f"{folder}/{names[0]}" for folder in folders], _parse_memory)
    left = _least([_left(tree, folder, names) for folder in folders])
    return Limits(cpu_quota=quota, memory_bytes=_whole(memory), memory_left_bytes=_whole(left))


def _left(tree: Tree, folder: str, names: tuple[str, str, str]) -> float | None:
    """What the group of a folder may still take, infinity where it isn't limited; `names` are the files of its limit
    and of its use, and the line of its statistics that counts page cache to be taken back."""
    limit = tree.value(f"{folder}/{names[0]}", _parse_memory) if tree.text(f"{folder}/{names[0]}") else inf
    if limit is None or limit == inf:
        return limit
    cache = re.search(rf"^{names[2]} (\d+)$", tree.text(f"{folder}/memory.stat") or "", re.MULTILINE)
    used = (tree.value(f"{folder}/{names[1]}", parse_number) or 0) - (int(cache[1]) if cache else 0)
    return max(0.0, limit - max(0, used))


def _quota_1(tree: Tree, groups: dict[str, str]) -> float | Unlimited | None:
    if "cpu" not in groups or not tree.exists(f"{MOUNT}/cpu"):
        return None
    quotas = []
    for folder in _upwards(f"{MOUNT}/cpu", groups["cpu"]):
        quota, period = (tree.text(f"{folder}/cpu.cfs_{what}_us") for what in ("quota", "period"))
        if quota is not None and period is not None:
            quotas.append(tree.parsed(folder, f"{quota} {period}", parse_quota))
    return _least(quotas)


def _narrowest(tree: Tree, paths: list[str], parse: Callable[[str], float]) -> float | Unlimited | None:
    texts = {path: text for path in paths if (text := tree.text(path)) is not None}
    return _least([tree.parsed(path, text, parse) for path, text in texts.items()])


def _least(limits: list[float | None]) -> float | Unlimited | None:
    """The smallest limit; None where one of them was not understood, for it may be the smallest."""
    known = [limit for limit in limits if limit is not None]
    least = min(known, default=inf)
    if len(known) < len(limits):
        return None
    return "unlimited" if least == inf else least


def _whole(limit: float | Unlimited | None) -> int | Unlimited | None:
    return int(limit) if isinstance(limit, float) else limit


def parse_quota(text: str) -> float:
    """CPUs of "50000 100000" (microseconds of quota and period); infinity for "max" or a quota of -1.

    Raises ValueError for anything else."""
    match = re.fullmatch(r"(max|-1|\d{1,18})\s+([1-9]\d{0,17})", text, re.ASCII)
    if not match:
        raise ValueError(f"not a CPU quota: {shown(text)}")
    return inf if match[1] in ("max", "-1") else int(match[1]) / int(match[2])


def _parse_memory(text: str) -> float:
    size = inf if text == "max" else float(parse_number(text))
    return size if size < NO_LIMIT_BYTES else inf


def _groups(text: str) -> dict[str, str]:
    """Group by controller from proc/self/cgroup; the unified hierarchy's controller is "".

    Groups outside of the mount (with "..") are left out: their limits can't be read."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and ".." not in PurePosixPath(parts[2]).parts:
            groups.update(dict.fromkeys(parts[1].split(","), parts[2]))
    return groups


def _upwards(mount: str, group: str) -> list[str]:
    """The folders of a group and of those around it."""
    path = PurePosixPath(group.lstrip("/"))
    return [str(PurePosixPath(mount) / folder) for folder in (path, *path.parents)]
