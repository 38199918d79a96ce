"""What the C library of this system believes of the caches: its tunables, from its own listing."""

from __future__ import annotations

import re
import subprocess
from functools import cache

LOADER = "/lib64/ld-linux-x86-64.so.2"
SECONDS = 5
_LINE = re.compile(r"^(glibc\.[\w.]+): (\S+)")


@cache
def glibc_tunables(loader: str = LOADER) -> dict[str, str]:
    """Tunables with their values in force, as glibc's loader lists them; none where it can't."""
    try:
        listing = subprocess.run(
            [loader, "--list-tunables"], capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {match[1]: match[2] for line in listing.stdout.splitlines() if (match := _LINE.match(line))}
