"""What a report opens with: the machine as a picture, what its table is worth, what stands against others' words, what
stayed open, and the summary of the paper. Everything in it is text; who shows it escapes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from setebench.report.opening.answers import Answers
from setebench.report.opening.doubts import against, open_ones
from setebench.report.opening.picture import Box, Picture, picture
from setebench.report.opening.tables import Group, groups
from setebench.report.sections import Reference
from setebench.report.view import verified
from setebench.results import Document

__all__ = ["Box", "Opening", "Picture", "opening", "processor_name"]

UNVERIFIED = "Not verified on this machine yet: run setebench verify"
MOST_OPEN = 8
"""Reasons that are listed before the rest is only counted."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The first page."""

    name: str
    picture: Picture
    verified: str
    against: list[str]
    open: list[str]
    open_besides: int
    groups: list[Group]


def opening(document: Document, references: Sequence[Reference]) -> Opening | None:
    """The first page of a document; None where it holds no machine: latencies and caches both."""
    answers = Answers(document)
    if not {"latency.l1", "cache.l1.size"} <= answers.findings.keys():
        return None
    left = open_ones(document)
    return Opening(
        name=processor_name(document),
        picture=picture(answers),
        verified=next(iter(verified(document)), UNVERIFIED),
        against=list(against(document.findings, references)),
        open=left[:MOST_OPEN],
        open_besides=len(left[MOST_OPEN:]),
        groups=groups(answers, references),
    )


def processor_name(document: Document) -> str:
    """What the processor is called, and whose guest it runs in."""
    cpu, hypervisor = (document.machine.environment.get(key) for key in ("cpu", "hypervisor"))
    known: dict[str, Any] = cpu if isinstance(cpu, dict) else {}
    numbers = [f"{key} {known[key]}" for key in ("family", "model") if known.get(key) is not None]
    host = hypervisor.get("name") if isinstance(hypervisor, dict) and hypervisor.get("present") else None
    return ", ".join(map(str, [document.machine.name, *numbers, *([f"guest of {host}"] if host else [])]))
