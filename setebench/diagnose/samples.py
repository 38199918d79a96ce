"""Samples of a program's time: the places that they name."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

from setebench import files
from setebench.diagnose.records import UNKNOWN, Hit
from setebench.native.perf.sampling import SAMPLES_HZ, Kind, Record, Sampler

KERNEL = "[kernel]"
ADDR2LINE_SECONDS = 20.0
"""For one file: large debug information takes seconds to be read."""
At = tuple[str, int]
"""Path of a file that a program has mapped, and an offset in it."""


def profile(sampler: Sampler, ends: Sequence[float]) -> tuple[tuple[Hit, ...], dict[int, str]]:
    """Samples of time so far by interval, thread and place, and the names of threads by number, as far as records said.
    `ends` are the ends of the intervals, seconds."""
    sampler.tick()
    samples, names = placed(sampler.records)
    begun = time.time() - (time.monotonic_ns() - sampler.begin_ns) / 1e9
    named = places({at for _, _, at in samples if at is not None}, begun)
    counts: Counter[tuple[int, int, str, str, str]] = Counter()
    for sample, file, at in samples if ends else ():
        interval = min(bisect_right(ends, (sample.time - sampler.begin_ns) / 1e9), len(ends) - 1)
        function, line = named.get(at, ("", "")) if at else ("", "")
        function = KERNEL if sample.flag else function or UNKNOWN
        counts[interval, sample.tid, function, KERNEL if sample.flag else file, line] += 1
    hits = tuple(
        Hit(
            interval=interval,
            thread=thread,
            samples=number,
            seconds=number / SAMPLES_HZ,
            function=function,
            object=file,
            line=line,
        )
        for (interval, thread, function, file, line), number in sorted(counts.items())
    )
    return hits, names


def placed(records: Iterable[Record]) -> tuple[list[tuple[Record, str, At | None]], dict[int, str]]:
    """Samples, each with the file that its code was mapped from and its place there (None: in no file), and names of
    threads. Records of all buffers come in any order; a later mapping hides what it overlaps of earlier ones."""
    memories: dict[int, list[Record]] = defaultdict(list)
    names: dict[int, str] = {}
    samples: list[tuple[Record, str, At | None]] = []
    for record in sorted(records, key=lambda each: each.time):
        if record.kind is Kind.SAMPLE:
            found = next(
                (each for each in reversed(memories[record.pid]) if each.start <= record.start < each.end), None
            )
            file = UNKNOWN if found is None else found.name
            in_file = found is not None and not record.flag and file.startswith("/") and not file.startswith("//")
            at = (file, record.start - found.start + found.offset) if found is not None and in_file else None
            samples.append((record, file, at))
        elif record.kind is Kind.MAPPED:
            memories[record.pid].append(record)
        elif record.kind is Kind.NAMED:
            names[record.tid] = record.name
            if record.flag:
                memories[record.pid] = []
        elif record.kind is Kind.BEGAN:
            names.setdefault(record.tid, names.get(record.end, ""))
            if record.pid != record.start:
                memories[record.pid] = list(memories[record.start])
    return samples, names


def places(wanted: Iterable[At], begun: float = float("inf")) -> dict[At, tuple[str, str]]:
    """Function and line ("file.c:12", "" where it is not known) of code in files, by binutils' `addr2line`; those that
    it can't name are left out, and so are files that have changed since `begun` (seconds since the epoch)."""
    offsets: dict[str, list[int]] = defaultdict(list)
    for path, offset in wanted:
        offsets[path].append(offset)
    tool, found = shutil.which("addr2line"), {}
    for path, known in offsets.items() if tool else ():
        addresses = _addresses(path, known, begun)
        command, text = [str(tool), "-fCe", path], "".join(f"{address:#x}\n" for address in addresses.values())
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, timeout=ADDR2LINE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
            continue
        said = done.stdout.splitlines()
        for offset, function, line in zip(addresses, said[::2], said[1::2], strict=False):
            if function != "??":
                file, _, number = line.partition(" (")[0].rpartition(":")
                in_source = number.isdigit() and number != "0" and not file.startswith("??")
                found[path, offset] = function, f"{Path(file).name}:{number}" if in_source else ""
    return found


def _addresses(path: str, offsets: Iterable[int], begun: float) -> dict[int, int]:
    """The addresses that an ELF file gives to bytes at offsets; none of a file that can't be read."""
    try:
        with files.opened(path) as file:
            if os.fstat(file.fileno()).st_ctime > begun:
                return {}
            segments = ELFFile(file).iter_segments("PT_LOAD")
            loaded = [(each["p_offset"], each["p_filesz"], each["p_vaddr"]) for each in segments]
    except Exception:  # whatever a parser stumbles over in a damaged file of a stranger: it has no names
        return {}
    return {o: o - begin + at for o in offsets for begin, size, at in loaded if 0 <= o - begin < size}
