"""The schema of a machine file: every parameter of a simulated memory system but its PMU.

A machine file is TOML; each table below is one of these classes. Defaults describe a quiet, plain out-of-order core
without prefetchers. Latencies are totals, load to use, in core cycles, of an otherwise idle machine with a TLB hit.
The file is the truth: what `setebench sim truth` prints is derived from these fields alone. A field's type says what it
means and may be; msgspec's messages, `setebench sim schema` and the checks have it from there.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from setebench.sim.spec.pmu import SIMULATED_ROLES as SIMULATED_ROLES
from setebench.sim.spec.pmu import Fault as Fault
from setebench.sim.spec.pmu import Pmu as Pmu
from setebench.sim.spec.prefetchers import AnyPrefetcher as AnyPrefetcher
from setebench.sim.spec.prefetchers import BestOffset as BestOffset
from setebench.sim.spec.prefetchers import InstructionClasses as InstructionClasses
from setebench.sim.spec.prefetchers import Known as Known
from setebench.sim.spec.prefetchers import Lead as Lead
from setebench.sim.spec.prefetchers import LinePair as LinePair
from setebench.sim.spec.prefetchers import NextLine as NextLine
from setebench.sim.spec.prefetchers import Prefetcher as Prefetcher
from setebench.sim.spec.prefetchers import ReferencePrediction as ReferencePrediction
from setebench.sim.spec.prefetchers import Region as Region
from setebench.sim.spec.prefetchers import StreamBuffer as StreamBuffer
from setebench.sim.spec.prefetchers import Streamer as Streamer
from setebench.sim.spec.prefetchers import Stride as Stride
from setebench.sim.spec.prefetchers import UpDown as UpDown
from setebench.sim.spec.replacement_ages import VARIANT
from setebench.sim.spec.table import Size, WhenFull, between, says, several, words
from setebench.sim.spec.table import Table as Table

MOST = 1e13  # cycles between two events of noise

Latency = Annotated[float, Meta(ge=0.25, le=1e5)]
Cycles = Annotated[float, Meta(ge=0, le=1e5)]  # that add to a latency
Duration = Annotated[float, Meta(ge=0, le=1e7)]  # cycles that a bracket, a flush, a fault or an interrupt takes
Interval = Annotated[float, Meta(ge=0, le=MOST)]  # cycles
Count = Annotated[int, Meta(ge=1, le=64)]
Entries = Annotated[int, Meta(ge=0, le=512)]  # for misses

Bracket = Literal["lfence", "rdtscp", "mfence", "cpuid", "rdpru"]
HintName = Literal["t0", "t1", "t2", "nta", "w"]
Policy = Literal["lru", "random", "fifo", "tree_plru", "bit_plru", "srrip", "brrip", "qlru"]


class Clock(Table, frozen=True, kw_only=True):
    """The time-stamp counter and how it is read."""

    ticks_per_cycle: Annotated[float, between(0.001, 100, "counter ticks per core cycle, the mean over time")] = 1.0
    ticks_per_second: Annotated[float, between(1e6, 1e11, "stated in Facts; over ticks_per_cycle: the core's")] = 2.0e9
    step_ticks: Annotated[float, between(1, 1e4, "the counter moves in steps of this many ticks, may be odd")] = 1.0
    brackets: Annotated[
        dict[Bracket, Duration],
        several(1, 5, "cycles of an empty interval for each bracket that works; the first is the machine's own choice"),
    ] = msgspec.field(default_factory=lambda: {"lfence": 20.0, "rdtscp": 25.0})
    drift: Annotated[float, between(0, 0.2, "the core's frequency swings by this fraction around its mean")] = 0.0
    drift_period_cycles: Annotated[float, between(1e4, MOST, "one swing up and down")] = 1.0e9
    jitter_cycles: Annotated[Cycles, says("a reading takes up to so much longer or shorter, evenly")] = 0.0


class Noise(Table, frozen=True, kw_only=True):
    """What the system around does to a measurement; zero intervals turn a disturbance off. Means are exponential."""

    interrupt_interval_cycles: Annotated[Interval, says("mean cycles between interrupts")] = 0.0
    interrupt_cycles: Annotated[Duration, says("cycles an interrupt takes")] = 5000.0
    interrupt_lines: Annotated[int, between(0, 65536, "lines that an interrupt brings into the core's caches")] = 32
    co_runner_interval_cycles: Annotated[Interval, says("mean cycles until an SMT co-runner comes")] = 0.0
    co_runner_cycles: Annotated[float, between(1, MOST, "mean cycles that it stays on the other thread")] = 1e8
    co_runner_entries: Annotated[Entries, says("level-1 miss entries that it holds; fewer than there are")] = 2
    co_runner_issue_share: Annotated[float, between(0, 0.9, "fraction of the issue slots that it takes")] = 0.4
    loss_interval_cycles: Annotated[Interval, says("mean cycles between bursts of private lines lost")] = 0.0
    loss_share: Annotated[float, between(0, 1, "fraction of the core's private lines that one burst takes")] = 0.01
    recorded: Annotated[
        str,
        words(0, 300, "a recording, or an .npz file: its pace, gaps, co-runners and lost lines come"),
    ] = ""


class VectorExtra(Table, frozen=True, kw_only=True):
    """Cycles that a vector load takes longer than an 8-byte load, from whatever level."""

    bytes16: Annotated[Cycles, says("for a load of 16 bytes")] = 0.0
    bytes32: Annotated[Cycles, says("for a load of 32 bytes")] = 0.0
    bytes64: Annotated[Cycles, says("for a load of 64 bytes")] = 0.0


class Core(Table, frozen=True, kw_only=True):
    """Cores and their pipelines."""

    cores: Annotated[Count, says("number of cores")] = 1
    threads_per_core: Annotated[int, between(1, 8, "SMT threads; CPU number = thread * cores + core")] = 1
    out_of_order: Annotated[bool, says("false: operations start in program order")] = True
    issue_width: Annotated[Count, says("instructions that enter the core per cycle")] = 4
    reorder_window: Annotated[Size, says("instructions from the oldest unfinished one to the newest")] = 224
    load_queue: Annotated[Size, says("loads and software prefetches not yet retired")] = 72
    store_queue: Annotated[Size, says("stores and flushes not yet written")] = 56
    blocking_load: Annotated[bool, says("true: nothing starts before a load that missed level 1 is done")] = False
    blocking_store: Annotated[bool, says("the same for stores")] = False
    blocking_prefetch: Annotated[bool, says("the same for software prefetches")] = False
    multiply_cycles: Annotated[Latency, says("latency of an integer multiplication")] = 3.0
    integer_to_vector_cycles: Annotated[Cycles, says("from an integer to a vector register")] = 2.0
    vector_to_integer_cycles: Annotated[Cycles, says("and back, as in each step of a vector chase")] = 2.0
    vector_load_extra: Annotated[VectorExtra, says("what vector loads take longer")] = VectorExtra()
    access_sizes: Annotated[tuple[Literal[8, 16, 32, 64], ...], several(1, 4, "bytes per access")] = (8, 16, 32, 64)
    port_bytes: Annotated[Literal[16, 32, 64], says("of an access that a level-1 port moves per cycle")] = 64
    store_cycles: Annotated[Cycles, says("from store to store; 0 = stores take level-1 ports as loads do")] = 0.0
    flush_cycles: Annotated[Duration, says("a flush takes this long")] = 40.0


class Level(Table, frozen=True, kw_only=True):
    """One cache level. Level 1 and 2 are private to a core, level 3 is shared by all."""

    sets: Annotated[int, between(1, 1 << 20, "a power of two at level 1; elsewhere lines go by the remainder")]
    ways: Annotated[int, between(1, 32, "lines per set")]
    latency_cycles: Annotated[Latency, says("load to use of a hit here")]
    replacement: Annotated[
        Policy,
        says("which line of a full set leaves; bit_plru: the first whose bit no use has set since all were cleared"),
    ] = "lru"
    qlru: Annotated[
        str,
        Meta(
            pattern=f"^({VARIANT})?$",
            description='the variant, where replacement is qlru, as "H11_M1_R0_U0": ages of two bits in the notation '
            "of Abel and Reineke (ISPASS 2020), which `replacement_ages.py` explains",
        ),
    ] = ""
    inclusion: Annotated[
        Literal["neither", "inclusive", "exclusive", "victim"],
        says(
            "of the levels above: inclusive = a line evicted here leaves them; exclusive = filled by their victims and "
            "emptied by a hit; victim (level 3) = filled by their victims, a hit leaves the line; ignored at level 1"
        ),
    ] = "neither"
    hashed_index: Annotated[bool, says("the set is a hash of the whole physical line number")] = False
    way_tag_bits: Annotated[
        int, between(0, 16, "level 1 only: bits of a hash of the virtual address that predicts a load's way; 0 = none")
    ] = 0
    mispredicted_way_cycles: Annotated[Cycles, says("what a load takes longer in another way")] = 0.0
    ports: Annotated[Count, says("accesses that may start here per cycle")] = 2
    fill_interval_cycles: Annotated[Cycles, says("least time between two lines that come to a core")] = 1.0
    mshr_entries: Annotated[Entries, says("misses in flight, all causes together; 0 = no limit")] = 10
    mshr_demand_limit: Annotated[Entries, says("of these, at most so many by loads and stores; 0 = all")] = 0
    mshr_prefetch_limit: Annotated[Entries, says("at most so many by software prefetches; 0 = all")] = 0
    mshr_hardware_limit: Annotated[Entries, says("at most so many by hardware prefetchers; 0 = all")] = 0
    mshr_shared_by_smt: Annotated[bool, says("false: each SMT thread has mshr_entries of its own")] = True

    @property
    def lines(self) -> int:
        """Lines that fit into the level."""
        return self.sets * self.ways


class TlbTable(Table, frozen=True, kw_only=True):
    """One data TLB for one page size."""

    entries: Annotated[int, between(0, 65536, "0 = no such table: every lookup misses it at no cost of its own")] = 64
    ways: Annotated[int, between(0, 64, "0 = fully associative; else entries / ways is a power of two")] = 0
    index: Annotated[Literal["linear", "hashed"], says("the set is low bits of the page number, or a hash")] = "linear"
    miss_penalty_cycles: Annotated[Cycles, says("of a load that misses here and hits level 2, or of the walk")] = 7.0


class Tlb(Table, frozen=True, kw_only=True):
    """Data TLBs, private to a core, LRU."""

    l1_4k: Annotated[TlbTable, says("level 1, for 4 KiB pages")] = TlbTable()
    l2_4k: Annotated[TlbTable, says("level 2, for 4 KiB pages")] = TlbTable(
        entries=1536, ways=12, miss_penalty_cycles=40.0
    )
    l1_2m: Annotated[TlbTable, says("level 1, for 2 MiB pages")] = TlbTable(entries=32)
    l2_2m: Annotated[TlbTable, says("level 2, for 2 MiB pages")] = TlbTable(
        entries=1024, ways=8, miss_penalty_cycles=30.0
    )
    walkers: Annotated[Count, says("page walks of a core at once")] = 2


class Memory(Table, frozen=True, kw_only=True):
    """Main memory and its pages."""

    bytes: Annotated[
        int,
        Meta(ge=1 << 26, le=1 << 35, multiple_of=1 << 21, description="may be allocated; taken from the host as used"),
    ] = 1 << 34
    latency_cycles: Annotated[Latency, says("load to use of a miss in all caches, the mean")] = 300.0
    spread_cycles: Annotated[Cycles, says("latency varies evenly by so much up or down")] = 0.0
    interval_cycles: Annotated[Cycles, says("least time between two lines; 0 = no limit")] = 0.0
    page_sizes: Annotated[tuple[Literal[4096, 2097152], ...], several(1, 2, "on offer, in bytes")] = (4096, 2097152)
    huge_pages_splintered: Annotated[bool, says("true: 2 MiB pages lie in 4 KiB parts, anywhere")] = False
    page_fault_4k_cycles: Annotated[Duration, says("first touch of a page, over a TLB miss")] = 2000.0
    page_fault_2m_cycles: Annotated[Duration, says("the same for a 2 MiB page")] = 100000.0


class Hint(Table, frozen=True, kw_only=True):
    """What a software-prefetch hint does."""

    fills: Annotated[Literal["none", "l1", "l2", "l3"], says("nearest level that gets the line; none = no work")] = "l1"
    exclusive: Annotated[bool, says("takes the line for writing: other cores lose it")] = False


def _usual_hints() -> dict[HintName, Hint]:
    below = Hint(fills="l2")
    return {"t0": Hint(), "t1": below, "t2": below, "nta": Hint(), "w": Hint(exclusive=True)}


class SoftwarePrefetch(Table, frozen=True, kw_only=True):
    """Software prefetches. Whether they train a hardware prefetcher is that one's `trained_by`."""

    hints: Annotated[dict[HintName, Hint], says("what each hint does; others are unavailable")] = msgspec.field(
        default_factory=_usual_hints
    )
    on_l1_tlb_miss: Annotated[bool, says("still done when it misses the level-1 TLB")] = True
    on_l2_tlb_miss: Annotated[bool, says("still done when it misses both TLBs")] = True
    on_page_fault: Annotated[bool, says("still done on a page never touched (without the fault's cost)")] = False
    across_page: Annotated[bool, says("still done in another 4 KiB page than the latest load or store")] = True
    when_full: Annotated[WhenFull, says("when the level it fills has no miss entry free")] = "stalls"
    lower_hint_takes_l1_entry: Annotated[bool, says("one that fills l2 or l3 takes a level-1 entry as well")] = False


class Coherence(Table, frozen=True, kw_only=True):
    """Several cores and the interconnect. Totals load to use; `distance_cycles[a][b]` is added to each."""

    modified_cycles: Annotated[Latency, says("a line another core's caches hold modified")] = 100.0
    exclusive_cycles: Annotated[Latency, says("exclusive (clean, only there)")] = 100.0
    shared_cycles: Annotated[Cycles, says("held by several; 0 = level 3 or memory delivers it")] = 0.0
    invalidate_cycles: Annotated[Cycles, says("a store to a line of others: extra time")] = 60.0
    distance_cycles: Annotated[tuple[tuple[Cycles, ...], ...], several(0, 64, "cores x cores; empty = all zero")] = ()


class Machine(Table, frozen=True, kw_only=True):
    """A machine file."""

    name: Annotated[str, words(1, 64, "short name")]
    description: Annotated[str, words(0, 300, "one line for people")] = ""
    line_size_bytes: Annotated[Literal[32, 64, 128], says("cache line, of all levels")] = 64
    clock: Annotated[Clock, says("the time-stamp counter")] = Clock()
    noise: Annotated[Noise, says("disturbances by the system around")] = Noise()
    core: Annotated[Core, says("cores and pipelines")] = Core()
    levels: Annotated[tuple[Level, ...], several(2, 3, "caches; the first is level 1")]
    tlb: Annotated[Tlb, says("data TLBs")] = Tlb()
    memory: Annotated[Memory, says("main memory and pages")] = Memory()
    software_prefetch: Annotated[SoftwarePrefetch, says("software prefetches")] = SoftwarePrefetch()
    prefetchers: Annotated[tuple[AnyPrefetcher, ...], several(0, 16, "hardware; one of a kind per level")] = ()
    coherence: Annotated[Coherence, says("several cores")] = Coherence()
    pmu: Annotated[Pmu | None, says("events that can be counted; without the table: none")] = None
