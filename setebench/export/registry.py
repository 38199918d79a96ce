"""Which formats there are: every module of `setebench.export.formats` with a `FORMAT`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from msgspec import structs

from setebench.errors import SetebenchError, UsageError
from setebench.export import formats as package
from setebench.export.format import Format
from setebench.export.source import Source
from setebench.results import Document
from setebench.text import remarks


@cache
def formats() -> dict[str, Format]:
    """All formats by name, sorted."""
    names = [info.name for info in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return {each.name: each for each in sorted((module.FORMAT for module in modules), key=lambda each: each.name)}


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
        raise SetebenchError(f"this result says nothing of what {name} takes; `setebench characterize` asks for all")
    return text
