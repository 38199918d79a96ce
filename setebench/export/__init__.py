"""Findings as configuration for other tools: compilers, libraries, simulators, topology tools.

Modules of `formats/` hold formats that are alike. A value that a result does not settle is left out and named; what a
format needs and nobody measured is marked as assumed.
"""

from __future__ import annotations

from msgspec import structs

from setebench.errors import SetebenchError, UsageError
from setebench.export.formats import blas, compilers, kerncraft, simulators, topologies
from setebench.export.source import Source
from setebench.export.values import Format
from setebench.results import Document
from setebench.text import remarks

MODULES = (blas, compilers, kerncraft, simulators, topologies)


def formats() -> dict[str, Format]:
    """All formats by name, sorted."""
    return {each.name: each for each in sorted((e for m in MODULES for e in m.FORMATS), key=lambda each: each.name)}


def export(document: Document, name: str) -> str:
    """The result in the format of that name; its text is made harmless first, whatever the format. Raises `UsageError`
    for an unknown name, `SetebenchError` where no finding is about what the format takes: then it is the same
    without findings."""
    if name not in formats():
        raise UsageError(f"unknown format {name!r}; one of {', '.join(formats())}")
    write = formats()[name].write
    harmless = remarks(structs.replace(document, evidence={}))
    text = write(Source(harmless))
    if text == write(Source(structs.replace(harmless, findings=[]))):
        raise SetebenchError(f"this result says nothing of what {name} takes; `setebench characterize` measures all")
    return text
