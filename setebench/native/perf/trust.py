"""What verdicts on this machine's events hold for: its processor, microcode and kernel, and this version."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from setebench.counters.verdicts import Key
from setebench.host.processor import read_processor
from setebench.host.tree import Tree


def this_key(tree: Tree | None = None, kernel: str | None = None) -> Key:
    """The key of verdicts on this machine, or on the one that `tree` describes, under the kernel of that release.
    Vendor, family, model and stepping are as kernels number them."""
    processor = read_processor(tree or Tree(Path("/")))
    try:
        ours = version("setebench")
    except PackageNotFoundError:
        ours = "unknown"
    numbers = (processor.vendor, processor.family, processor.model, processor.stepping)
    return Key(
        processor=" ".join("unknown" if part is None else str(part) for part in numbers),
        microcode=processor.microcode or "unknown",
        kernel=kernel or os.uname().release,
        version=ours,
    )
