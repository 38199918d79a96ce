"""The first page as text: boxes for a terminal, and lines below them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from setebench.report.opening import Box, Opening
from setebench.report.opening.tables import Group
from setebench.text import visible

WIDEST, NARROWEST = 100, 40
"""Columns of the page: lines of more are hard to read, boxes of fewer hold no words."""


def drawn(page: Opening, width: int) -> list[str]:
    """The lines of the page, none wider than `width` where that is no narrower than boxes can be."""
    width = max(min(width, WIDEST), NARROWEST)
    lines = [visible(page.name), ""]
    for box in page.picture.hierarchy:
        lines += _box(box, width)
        lines.append(f"   ↓ {visible(box.below)}" if box.below else "   ↓")
    lines.pop()
    for box in page.picture.translation:
        lines += _wrapped(f"{visible(box.name)}: ", "; ".join(_fact(fact) for fact in box.facts), width)
    lines += ["", *_wrapped("", page.verified, width)]
    lines += _listed("Stands against others' words", page.against, width)
    lines += _listed("Stayed open", [f"{each.names}: {each.reason}" for each in page.open], width)
    if page.open_besides:
        lines.append(f"  and {page.open_besides} more, below")
    for group in page.groups:
        lines += ["", *_group(group, width)]
    if any(row.news for group in page.groups for row in group.rows):
        lines += ["", "* no published value"]
    return lines


def _box(box: Box, width: int) -> list[str]:
    inner = width - 4
    head = f"─ {visible(box.name)} "
    lines = [f"┌{head}{'─' * max(width - 2 - len(head), 0)}┐"]
    body = _wrapped("", " · ".join(_fact(fact) for fact in box.facts), inner)
    for each in box.prefetchers:
        body += _wrapped("» ", f"{each.name}: {each.words}" if each.words else each.name, inner)
    body += _wrapped("", f"no prefetcher: {box.absent}", inner) if box.absent else []
    lines += [f"│ {line.ljust(inner)} │" for line in body]
    return [*lines, f"└{'─' * (width - 2)}┘"]


BARE = frozenset({"size", "ways", "latency", "clock"})
"""Facts that say by their unit what they are."""


def _fact(fact: tuple[str, str]) -> str:
    name, text = fact
    if name in BARE and text != "open":
        return text
    return f"{name}: {text}" if " " in name or "," in text else f"{name} {text}"


def _wrapped(lead: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        visible(text), width, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
    ) or [lead.rstrip()]


def _listed(heading: str, texts: list[str], width: int) -> Iterator[str]:
    if texts:
        yield from ("", f"{heading}:")
    for text in texts:
        yield from _wrapped("  - ", text, width)


def _group(group: Group, width: int) -> Iterator[str]:
    """A table of two columns, and what is published in brackets behind the value."""
    yield group.heading
    first = min(max(len(row.label) for row in group.rows), width // 3)
    for row in group.rows:
        text = visible(f"{row.value}{' *' if row.news else ''}{f'  ({row.published})' if row.published else ''}")
        values = textwrap.wrap(text, width - first - 4, break_on_hyphens=False) or [""]
        labels = textwrap.wrap(visible(row.label), first)
        for number in range(max(len(values), len(labels))):
            left, right = (column[number] if number < len(column) else "" for column in (labels, values))
            yield f"  {left.ljust(first)}  {right}"
