"""What the builder of probes checks of its arguments, and the numbers that stand for them in a row."""

from __future__ import annotations

from setebench.errors import ProbeError
from setebench.probe import kernels
from setebench.probe.table import ACCESS_SIZES, BRACKETS, MAX_INTERVALS


def positive(what: str, count: int, most: int = 10**9) -> int:
    """The count. Raises `ProbeError` unless it lies in 1 to `most`."""
    if not 0 < count <= most:
        raise ProbeError(f"{what} takes a count from 1 to {most}, not {count}")
    return count


def choice(what: str, name: str, names: tuple[str, ...]) -> int:
    """Index of the name. Raises `ProbeError` for an unknown one."""
    if name not in names:
        raise ProbeError(f"unknown {what} {name!r}; one of {', '.join(names)}")
    return names.index(name)


def access_size(size: int) -> int:
    """The size in bytes. Raises `ProbeError` for one that no access has."""
    if size not in ACCESS_SIZES:
        raise ProbeError(f"an access has 8, 16, 32 or 64 bytes, not {size}")
    return size


def interval_number(interval: int) -> int:
    """The number of an interval. Raises `ProbeError` for one that no probe has room for."""
    if not 0 <= interval < MAX_INTERVALS:
        raise ProbeError(f"intervals are numbered 0 to {MAX_INTERVALS - 1}, not {interval}")
    return interval


def bracket_variant(bracket: str | None) -> int:
    """Index of the clock bracket, -1 for the machine's own choice. Raises `ProbeError` for an unknown one."""
    return -1 if bracket is None else choice("bracket", bracket, BRACKETS)


def stream_bytes(kernel: kernels.Kernel, array_bytes: int) -> int:
    """Bytes of each array of a stream. Raises `ProbeError` for a size that the kernel can't pass."""
    if array_bytes % kernels.BLOCK_BYTES or not 0 < array_bytes <= kernels.MOST_ARRAY_BYTES:
        most = kernels.MOST_ARRAY_BYTES
        raise ProbeError(f"arrays of a stream have a multiple of 256 bytes, at most {most}, not {array_bytes}")
    if kernel.random and array_bytes & (array_bytes - 1):
        raise ProbeError(f"a random order needs an array whose size is a power of two, not {array_bytes} bytes")
    return array_bytes
