"""From the kernel's samples of time to places in the program: which mapping, which function, which line."""

from __future__ import annotations

import shutil
import subprocess
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from setebench.diagnose.observing.data import data_object
from setebench.diagnose.observing.memory import Mapping, Memory
from setebench.diagnose.observing.symbols import Listed, kernel_symbols, symbols, written_code
from setebench.diagnose.params import Params
from setebench.diagnose.records import UNKNOWN, Hit, Load, Place
from setebench.native.perf.sampling import Mapped, Record, Renamed, SampleRecord, Started

KERNEL = "[kernel]"
ANONYMOUS = "//anon"
"""What the kernel's records call memory that is of no file; /proc has no name for it."""

File = tuple[str, int]
"""A file that a program has mapped, as `symbols` finds it: path and inode."""


class Profile:
    """Samples of a program and of what it started, put together from records in the order of time."""

    def __init__(self, begin_ns: int, seconds_each: float, memories: dict[int, Memory] | None = None) -> None:
        """`begin_ns`: when the program began, on the clock of the records; `seconds_each`: what a sample stands for;
        `memories`: what processes had mapped by then."""
        self._begin_ns, self._seconds_each = begin_ns, seconds_each
        self._memories = memories or {}
        self._data: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._processes: set[int] = set()
        self._samples: list[tuple[SampleRecord, int, Mapping | None]] = []
        self._places: list[Place] = []

    def add_all(self, records: Iterable[Record]) -> None:
        """Records of all buffers, in any order."""
        timed = [(_time(record), number, record) for number, record in enumerate(records)]
        for _, _, record in sorted(timed, key=lambda each: each[:2]):
            self._add(record)

    def _add(self, record: Record) -> None:
        if isinstance(record, SampleRecord):
            self._sample(record)
        elif isinstance(record, Mapped):
            end = record.address + record.size_bytes
            new = Mapping(record.address, end, record.offset_bytes, record.path, record.inode)
            self._memories.setdefault(record.pid, Memory()).add(new)
        elif isinstance(record, Renamed):
            self._names[record.tid] = record.name
            if record.of_exec:
                self._memories[record.pid] = Memory()
        elif type(record) is Started:
            self._names.setdefault(record.tid, self._names.get(record.parent_tid, ""))
            if record.pid != record.parent_pid and record.parent_pid in self._memories:
                self._memories[record.pid] = self._memories[record.parent_pid].copy()

    def _sample(self, sample: SampleRecord) -> None:
        process = sample.who.pid or 0
        self._processes.add(process)
        memory = self._memories.get(process)
        mapping = memory.find(sample.ip or 0) if memory is not None and sample.mode != "kernel" else None
        if memory is not None and sample.weights is not None:
            self._data[len(self._samples)] = data_object(memory, sample.address or 0)
        self._samples.append((sample, process, mapping))

    @property
    def names(self) -> dict[int, str]:
        """Names of threads by number, as far as records said."""
        return self._names

    def hits(self, ends: Sequence[float]) -> tuple[Hit, ...]:
        """Samples of time by interval, thread and place; `ends` are the ends of the intervals, seconds."""
        if not ends:
            return ()
        counts: Counter[tuple[int, int, Place]] = Counter()
        for (sample, _, _), place in zip(self._samples, self._resolved(), strict=True):
            if sample.weights is not None:
                continue  # a sampled load says nothing of time
            interval = min(bisect_right(ends, self._seconds(sample)), len(ends) - 1)
            counts[interval, sample.who.tid or 0, place] += 1
        return tuple(
            Hit(interval=interval, thread=thread, place=place, samples=number, seconds=number * self._seconds_each)
            for (interval, thread, place), number in sorted(counts.items(), key=lambda each: each[0][:2])
        )

    def loads(self) -> tuple[Load, ...]:
        """Samples of loads, with where they were served."""
        return tuple(
            msgspec.structs.replace(_load(sample, place, self._seconds(sample)), data=self._data.get(number, ""))
            for number, ((sample, _, _), place) in enumerate(zip(self._samples, self._resolved(), strict=True))
            if sample.weights is not None and sample.source is not None and sample.source.operation in ("load", "")
        )

    def _seconds(self, sample: SampleRecord) -> float:
        return ((sample.who.time or self._begin_ns) - self._begin_ns) / 1e9

    def _resolved(self) -> list[Place]:
        """The place of every sample, in their order, with source lines for the hottest addresses. Symbol tables are
        only searched once."""
        if len(self._places) != len(self._samples):
            self._places = self._resolve()
        return self._places

    def _resolve(self) -> list[Place]:
        kernel = kernel_symbols() if any(each.mode == "kernel" for each, _, _ in self._samples) else None
        written = {process: written_code(process) for process in self._processes}
        places = [self._place(each, mapping, kernel, written[process]) for each, process, mapping in self._samples]
        return self._with_lines(places)

    def _place(
        self, sample: SampleRecord, mapping: Mapping | None, kernel: Listed | None, written: Listed | None
    ) -> Place:
        address = sample.ip or 0
        if sample.mode == "kernel":
            return Place(function=(kernel and kernel.name(address)) or KERNEL, object=KERNEL)
        at = _in_file(sample, mapping)
        name = _function_at(*at) if at is not None else None
        name = name or (written and written.name(address)) or UNKNOWN  # generated code may lie in a file (memfd) too
        return Place(function=name, object=UNKNOWN if mapping is None else mapping.path or ANONYMOUS)

    def _with_lines(self, places: list[Place]) -> list[Place]:
        """The same places with source lines where `addr2line` finds any."""
        at = [_in_file(sample, mapping) for sample, _, mapping in self._samples]
        wanted = Counter(each for each in at if each is not None)
        lines = source_lines([each for each, _ in wanted.most_common(Params().most_lines)])
        return [
            msgspec.structs.replace(place, line=lines[each]) if each in lines else place
            for each, place in zip(at, places, strict=True)
        ]


def _time(record: Record) -> int:
    who = getattr(record, "who", None)
    time = who.time if who is not None else getattr(record, "time", None)
    return time or 0


def _in_file(sample: SampleRecord, mapping: Mapping | None) -> tuple[File, int] | None:
    """The file that holds the code of a sample, and where in it; None of code in no file."""
    if mapping is None or not mapping.is_file:
        return None
    return (mapping.path, mapping.inode), (sample.ip or 0) - mapping.start + mapping.offset


@lru_cache(maxsize=1 << 16)
def _function_at(file: File, offset: int) -> str | None:
    table = symbols(*file)
    return None if table is None else table.name(offset)


def _load(sample: SampleRecord, place: Place, seconds: float) -> Load:
    source, weights = sample.source, sample.weights
    tlb = source.tlb if source is not None else ""
    return Load(
        seconds=seconds,
        thread=sample.who.tid or 0,
        place=place,
        latency_cycles=weights.latency_cycles if weights is not None else 0,
        level=source.level if source is not None else "",
        tlb_hit={"hit": True, "miss": False}.get(tlb),
        address=sample.address or 0,
    )


# -- source lines -------------------------------------------------------------------------------------------------


def source_lines(wanted: Sequence[tuple[File, int]]) -> dict[tuple[File, int], str]:
    """Lines as "file.c:12" by file and offset, from debug information by binutils' `addr2line`; nothing where the
    program is not installed, or the file has no such information."""
    tool = shutil.which("addr2line")
    if tool is None:
        return {}
    by_file: dict[File, list[int]] = defaultdict(list)
    for file, offset in wanted:
        by_file[file].append(offset)
    found: dict[tuple[File, int], str] = {}
    for file, offsets in by_file.items():
        found |= {(file, offset): line for offset, line in _lines_of(tool, file, offsets).items()}
    return found


def _lines_of(tool: str, file: File, offsets: Sequence[int]) -> dict[int, str]:
    table = symbols(*file)
    addresses = {offset: table.address(offset) for offset in offsets} if table is not None else {}
    known = [(offset, address) for offset, address in addresses.items() if address is not None]
    if not known:
        return {}
    command = [tool, "-e", file[0]]
    asked = "".join(f"{address:#x}\n" for _, address in known)
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, timeout=Params().addr2line_seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    answers = done.stdout.splitlines()
    if len(answers) != len(known):
        return {}
    return {offset: line for (offset, _), answer in zip(known, answers, strict=True) if (line := _line(answer))}


def _line(answer: str) -> str:
    """ "file.c:12" of "/long/path/file.c:12 (discriminator 3)"; empty where a part is not known."""
    place = answer.partition(" (")[0]
    file, _, number = place.rpartition(":")
    return f"{Path(file).name}:{number}" if number.isdigit() and number != "0" and not file.startswith("??") else ""
