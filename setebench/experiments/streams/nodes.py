"""Repeat a measurement for every pair of NUMA nodes: with the CPUs of one node and the memory of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import msgspec

from setebench.errors import UnsupportedError
from setebench.machine import BindsMemory
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide

Question = Callable[[Context, tuple[int, ...], int], Iterator[Finding]]


def matrix(context: Context, question: Question, failed: str, unit: str) -> Iterator[Finding]:
    """Measure with the CPUs of each NUMA node and the memory of each, pair by pair, and yield the findings, with both
    nodes' numbers added to their parameters; nothing if there is one node only, or memory can't be bound. `question`
    measures one pair: it gets a context whose memory is that node's, the CPUs and the number of pairs. If it can't, the
    parameter `failed` (in `unit`) is unresolved."""
    facts = context.machine.facts
    homes = {node.number: tuple(cpu for cpu in facts.cpus if cpu in node.cpus) for node in facts.nodes}
    pairs = [(home, memory) for home, memory in product(homes, homes) if homes[home]]
    if len(homes) < 2 or not isinstance(context.machine, BindsMemory):
        return
    for home, memory in pairs:
        cpus, own = homes[home], replace(context, cpu=homes[home][0], memory_node=memory, evidence={})
        try:
            found = list(question(own, cpus, len(pairs)))
        except UnsupportedError as error:
            found = [decide.unresolved(failed, unit, str(error))]
        for each in found:
            name = f"{each.parameter}.cpu_node_{home}.memory_node_{memory}"
            yield msgspec.structs.replace(each, parameter=name, evidence="")  # its samples are not kept
        context.layouts = own.layouts
