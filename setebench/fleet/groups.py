"""Nodes that differ together: parameters that stand out on about the same nodes are one group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

ALIKE = 0.5
"""Of the nodes that either of two parameters marks, the fraction that both must: two tests of one cause miss some of
each other's nodes, but half or more are the same."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes, and in which parameters they differ: for each the nodes that do and, as text, from what to what."""

    nodes: list[int]
    differs: dict[str, tuple[list[int], str]]


def groups(marked: Mapping[tuple[str, str], Iterable[int]]) -> list[Group]:
    """Groups of what is marked: for each parameter and what it says there, the nodes. Those with most nodes first."""
    sets = {key: frozenset(nodes) for key, nodes in marked.items()}
    found: list[tuple[frozenset[int], list[tuple[str, str]]]] = []
    for key, nodes in sorted(sets.items(), key=lambda pair: -len(pair[1])):
        for first, members in found:
            if len(first & nodes) >= ALIKE * len(first | nodes):
                members.append(key)
                break
        else:
            found.append((nodes, [key]))
    return [_group(members, sets) for _, members in found]


def _group(members: list[tuple[str, str]], sets: dict[tuple[str, str], frozenset[int]]) -> Group:
    nodes = frozenset[int]().union(*(sets[key] for key in members))
    differs: dict[str, tuple[list[int], str]] = {}
    for parameter, text in members:
        differs[parameter] = (sorted(sets[parameter, text]), text)
    return Group(nodes=sorted(nodes), differs=differs)
