"""From the kernel's samples of time to places in the program: which mapping, which function, which line."""

from __future__ import annotations

import shutil
import subprocess
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from setebench.diagnose.observing.symbols import Names, symbols, written_code
from setebench.diagnose.params import Params
from setebench.diagnose.records import UNKNOWN, Hit, Load, Place
from setebench.native.perf.sampling import Mapped, Record, Renamed, SampleRecord, Started, served_by, tlb_hit

KERNEL = "[kernel]"
ANONYMOUS = "//anon"
"""What the kernel's records call memory that is of no file; /proc has no name for it."""

At = tuple[str, int, int]
"""Path and inode of a file that a program has mapped, and an offset in it."""


def mapped_now(process: int) -> list[Mapped]:
    """What a running process has mapped, as /proc says; nothing where it has ended."""
    found = []
    with suppress(OSError, ValueError), open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            span, _, offset, _, inode, *path = line.rstrip("\n").split(maxsplit=5)
            start, end = (int(part, 16) for part in span.split("-"))
            at, number, name = int(offset, 16), int(inode), "".join(path)
            found.append(Mapped(time=0, pid=process, start=start, end=end, offset=at, path=name, inode=number))
    return found


class Profile:
    """Samples of a program and of what it started, put together from records in the order of time."""

    def __init__(self, begin_ns: int, seconds_each: float, mapped: Iterable[Mapped] = ()) -> None:
        """`begin_ns`: when the program began, on the clock of the records; `seconds_each`: what a sample stands for;
        `mapped`: what processes had mapped by then."""
        self._begin_ns, self._seconds_each = begin_ns, seconds_each
        self._memories: dict[int, list[Mapped]] = defaultdict(list)
        for each in mapped:
            self._memories[each.pid].append(each)
        self.names: dict[int, str] = {}
        """Names of threads by number, as far as records said."""
        self._samples: list[tuple[SampleRecord, Mapped | None]] = []
        self._loads: list[Load] = []

    def add_all(self, records: Iterable[Record]) -> None:
        """Records of all buffers, in any order."""
        for record in sorted(records, key=lambda each: getattr(each, "time", 0)):
            if isinstance(record, SampleRecord):
                self._sample(record)
            elif isinstance(record, Mapped):
                self._memories[record.pid].append(record)
            elif isinstance(record, Renamed):
                self.names[record.tid] = record.name
                if record.of_exec:
                    self._memories[record.pid] = []
            elif isinstance(record, Started):
                self.names.setdefault(record.tid, self.names.get(record.parent_tid, ""))
                if record.pid != record.parent_pid:
                    self._memories[record.pid] = list(self._memories[record.parent_pid])

    def _sample(self, sample: SampleRecord) -> None:
        """A sampled load says nothing of time. A later mapping hides what it overlaps of earlier ones."""
        if sample.latency_cycles:
            level = served_by(sample.source)
            self._loads.append(Load(latency_cycles=sample.latency_cycles, level=level, tlb_hit=tlb_hit(sample.source)))
            return
        memory = () if sample.in_kernel else reversed(self._memories[sample.pid])
        self._samples.append((sample, next((each for each in memory if each.start <= sample.ip < each.end), None)))

    def loads(self) -> tuple[Load, ...]:
        """Samples of loads, with where they were served."""
        return tuple(self._loads)

    def hits(self, ends: Sequence[float]) -> tuple[Hit, ...]:
        """Samples of time by interval, thread and place; `ends` are the ends of the intervals, seconds."""
        if not ends:
            return ()
        written = {process: written_code(process) for process in {sample.pid for sample, _ in self._samples}}
        common = Counter(at for sample, mapping in self._samples if (at := _in_file(sample, mapping)) is not None)
        lines = source_lines([at for at, _ in common.most_common(Params().most_lines)])
        counts: Counter[tuple[int, int, Place]] = Counter()
        for sample, mapping in self._samples:
            seconds = (sample.time - self._begin_ns) / 1e9
            interval = min(bisect_right(ends, seconds), len(ends) - 1)
            counts[interval, sample.tid, _place(sample, mapping, written[sample.pid], lines)] += 1
        return tuple(
            Hit(interval=interval, thread=thread, place=place, samples=number, seconds=number * self._seconds_each)
            for (interval, thread, place), number in sorted(counts.items(), key=lambda each: each[0][:2])
        )


def _place(sample: SampleRecord, mapping: Mapped | None, written: Names | None, lines: dict[At, str]) -> Place:
    if sample.in_kernel:
        return Place(function=KERNEL, object=KERNEL)
    at = _in_file(sample, mapping)
    name = None if at is None else _function_at(*at)
    name = name or (written and written.at(sample.ip)) or UNKNOWN  # generated code may lie in a file (memfd) too
    line = "" if at is None else lines.get(at, "")
    return Place(function=name, object=UNKNOWN if mapping is None else mapping.path or ANONYMOUS, line=line)


def _in_file(sample: SampleRecord, mapping: Mapped | None) -> At | None:
    """Where in a file the code of a sample lies; None of code in no file."""
    if mapping is None or not mapping.path.startswith("/") or mapping.path.startswith("//"):
        return None
    return mapping.path, mapping.inode, sample.ip - mapping.start + mapping.offset


@lru_cache(maxsize=1 << 16)
def _function_at(path: str, inode: int, offset: int) -> str | None:
    table = symbols(path, inode)
    return None if table is None else table.name(offset)


# -- source lines -------------------------------------------------------------------------------------------------


def source_lines(wanted: Iterable[At]) -> dict[At, str]:
    """Lines as "file.c:12", from debug information by binutils' `addr2line`; nothing where the program is not
    installed, or a file has no such information."""
    by_file: dict[tuple[str, int], list[int]] = defaultdict(list)
    for path, inode, offset in wanted:
        by_file[path, inode].append(offset)
    tool = shutil.which("addr2line")
    return {
        (*file, offset): line
        for file, offsets in (by_file if tool else {}).items()
        for offset, line in _lines_of(str(tool), file, offsets).items()
    }


def _lines_of(tool: str, file: tuple[str, int], offsets: Sequence[int]) -> dict[int, str]:
    table = symbols(*file)
    known = [(at, address) for at in offsets if table is not None and (address := table.address(at)) is not None]
    if not known:
        return {}
    wanted = "".join(f"{address:#x}\n" for _, address in known)
    command, most = [tool, "-e", file[0]], Params().addr2line_seconds
    try:
        done = subprocess.run(command, input=wanted, capture_output=True, text=True, timeout=most, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    answers = done.stdout.splitlines()
    lines = zip(known, map(_line, answers), strict=False)
    return {offset: line for (offset, _), line in lines if line} if len(answers) == len(known) else {}


def _line(answer: str) -> str:
    """ "file.c:12" of "/long/path/file.c:12 (discriminator 3)"; empty where a part is not known."""
    file, _, number = answer.partition(" (")[0].rpartition(":")
    return f"{Path(file).name}:{number}" if number.isdigit() and number != "0" and not file.startswith("??") else ""
