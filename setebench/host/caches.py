"""What the operating system says of the data caches, from the record of the environment that a result file keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELDS = {"size": "size_bytes", "ways": "ways", "line_size": "line_bytes"}


def reported_caches(environment: Mapping[str, Any]) -> dict[str, int]:
    """Sizes, ways and line sizes by the parameter that measures the same; empty where nothing is said. The record may
    come from anybody's file. In a guest these are the hypervisor's words, which need not be true."""
    topology = environment.get("topology")
    caches = topology.get("caches") if isinstance(topology, dict) else None
    records = [each for each in caches if isinstance(each, dict)] if isinstance(caches, list) else []
    return {
        f"cache.l{each['level']}.{name}": value
        for each in records
        if each.get("type") in ("Data", "Unified") and isinstance(each.get("level"), int)
        for name, key in FIELDS.items()
        if isinstance(value := each.get(key), int) and value > 0
    }
