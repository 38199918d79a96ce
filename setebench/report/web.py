"""Documents as one HTML file that opens without a network: no script, no font, no picture from elsewhere.

Everything from a document is untrusted text: the template escapes it all, control characters are shown, and
a content security policy in the page forbids whatever might get through.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from setebench import store
from setebench.errors import SetebenchError
from setebench.report.opening import opening, processor_name
from setebench.report.plots import plot
from setebench.report.view import View, condensed, cycles_per_ns, sections, shortcomings, title, verified
from setebench.results import Document
from setebench.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """One figure: its name, what it shows in words, its drawing as a data: address. `problem` stands in for that."""

    name: str
    alt: str = ""
    image: str = ""
    problem: str = ""


def page(entries: Sequence[Mapping[str, Any]]) -> str:
    """The report on some documents (each as `entry` makes it), a whole HTML page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    heading = entries[0]["title"] if len(entries) == 1 else f"{len(entries)} results"
    environment = Environment(
        loader=PackageLoader("setebench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda shown: visible(shown) if type(shown) is str else shown,  # markup of macros is none of others
    )
    text: str = environment.get_template("report.html.j2").render(entries=entries, heading=heading)
    return text


def entry(
    name: str, document: Document, plots: Sequence[Plot] = (), references: Mapping[str, Document] | None = None
) -> dict[str, Any]:
    """What the template prints of a document: what it is called, its plots, and what others say, by who says it."""
    view, ratio = View(document), cycles_per_ns(document)
    return {
        "name": name,
        "title": title(document),
        "verified": verified(document),
        "opening": opening(document, references or {}),
        "machine": {
            "machine": processor_name(document),
            "core clock while measuring": f"{ratio:.3f} GHz" if ratio else "unknown",
            "written by": f"{document.tool.name} {document.tool.version}",
            **{key: each if isinstance(each, str) else json.dumps(each) for key, each in document.settings.items()},
        },
        "shortcomings": shortcomings(document),
        "view": view,
        "columns": view.columns()[:-1],
        "sections": sections(condensed(document.findings)),
        "plots": plots,
        "download": _address(store.dumps(document), "application/json"),
    }


def _address(data: bytes, kind: str) -> str:
    """A data: address."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def draw(name: str, figure: Figure) -> Plot:
    """A figure as a plot of the report. Raises `SetebenchError` where there is nothing in the figure."""
    if not figure.axes:
        raise SetebenchError("the figure is empty")
    return Plot(name=name, alt=plot.alt_text(figure), image=_address(plot.encode(figure, "svg"), "image/svg+xml"))
