"""What verdicts on this machine's events hold for: its processor, microcode and kernel, and this version."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from setebench.counters.verdicts import Key
from setebench.host.processor import Processor, read_processor
from setebench.host.tree import Tree


def this_key(tree: Tree | None = None, kernel: str | None = None) -> Key:
    """The key of verdicts on this machine, or on the one that `tree` describes, under the kernel of that release."""
    processor = read_processor(tree or Tree(Path("/")))
    return Key(
        processor=processor_text(processor),
        microcode=processor.microcode or "unknown",
        kernel=kernel or os.uname().release,
        version=_version(),
    )


def processor_text(processor: Processor) -> str:
    """Vendor, family, model and stepping, as kernels number them."""
    numbers = (processor.vendor, processor.family, processor.model, processor.stepping)
    return " ".join("unknown" if part is None else str(part) for part in numbers)


def _version() -> str:
    try:
        return version("setebench")
    except PackageNotFoundError:
        return "unknown"
