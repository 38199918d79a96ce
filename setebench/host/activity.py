"""How long CPUs were at work, as the kernel counts it in proc/stat: all of them together, for all programs."""

from __future__ import annotations

import os
import re

from setebench.host.tree import Tree, parse_number


def wanted_and_stolen_ticks(text: str) -> tuple[int, int] | None:
    """From the text of proc/stat: the time that some program of this machine wanted to run, and the part of it that a
    hypervisor gave to others; in the kernel's ticks. None where the kernel counts no stolen time.

    Raises `ValueError` for a text without a line for all CPUs."""
    match = re.match(r"cpu\s+(.*)", text)
    if not match:
        raise ValueError("no line for all CPUs")
    ticks = [parse_number(word) for word in match[1].split()]
    if len(ticks) < 8:  # columns that every kernel since 2.6.11 has
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks[:8]
    return user + nice + system + irq + softirq + steal, steal


def wanted_seconds(tree: Tree) -> tuple[float, int] | None:
    """CPU time, in seconds since boot, that programs of this machine took on all CPUs together or were denied by its
    hypervisor, in steps of some 10 ms; and how many CPUs that are. None where the kernel doesn't say."""
    text = tree.text("proc/stat")
    ticks = None if text is None else tree.parsed("proc/stat", text, wanted_and_stolen_ticks)
    cpus = len(re.findall(r"^cpu\d+ ", text or "", re.MULTILINE))
    return None if ticks is None or not cpus else (ticks[0] / os.sysconf("SC_CLK_TCK"), cpus)
