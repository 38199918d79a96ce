"""setebench: short elapsed-time events for memory systems.

The library in a few names; everything is loaded when it is first used, so that importing stays light.

    import setebench

    document = setebench.run("latency", "sim:plain", fast=True)
    document["latency.l1"].value

`list_scenarios()` says which questions there are, `run` asks one, `characterize` asks all, `load` and `save` read and
write result files, `open_machine` opens a machine for several runs or for probes of one's own (`Probe`, `Base`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setebench.campaign import characterize, infer
    from setebench.errors import SetebenchError, UsageError
    from setebench.instrument import counting, region
    from setebench.loops.advice import Advice, prefetch_advice
    from setebench.loops.records import Loop, Policy, Stream
    from setebench.machine import Facts, Machine, open_machine
    from setebench.probe import Base, Probe
    from setebench.results import Document, Finding, Outcome
    from setebench.session import list_scenarios, run
    from setebench.store import load, save

__all__ = [
    "Advice",
    "Base",
    "Document",
    "Facts",
    "Finding",
    "Loop",
    "Machine",
    "Outcome",
    "Policy",
    "Probe",
    "SetebenchError",
    "Stream",
    "UsageError",
    "characterize",
    "counting",
    "infer",
    "list_scenarios",
    "load",
    "open_machine",
    "prefetch_advice",
    "region",
    "run",
    "save",
]

_HOMES = {
    "campaign": ("characterize", "infer"),
    "errors": ("SetebenchError", "UsageError"),
    "instrument": ("counting", "region"),
    "loops.advice": ("Advice", "prefetch_advice"),
    "loops.records": ("Loop", "Policy", "Stream"),
    "machine": ("Facts", "Machine", "open_machine"),
    "probe": ("Base", "Probe"),
    "results": ("Document", "Finding", "Outcome"),
    "session": ("list_scenarios", "run"),
    "store": ("load", "save"),
}
"""Which module each public name lives in. (`scenarios` is a package of this one, so the list has another name.)"""


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
