"""The schema of a machine file: every parameter of a simulated memory system.

A machine file is TOML; each table below is one of these classes. Defaults describe a quiet, plain out-of-order core
without prefetchers. Latencies are totals, load to use, in core cycles, of an otherwise idle machine with a TLB hit.
The file is the truth: what `setebench sim truth` prints is derived from these fields alone.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from setebench.sim.spec.pmu import Fault as Fault
from setebench.sim.spec.pmu import Pmu as Pmu
from setebench.sim.spec.prefetchers import AccessKind as AccessKind
from setebench.sim.spec.prefetchers import Known as Known
from setebench.sim.spec.prefetchers import LinePair as LinePair
from setebench.sim.spec.prefetchers import NextLine as NextLine
from setebench.sim.spec.prefetchers import Prefetcher as Prefetcher
from setebench.sim.spec.prefetchers import Region as Region
from setebench.sim.spec.prefetchers import Streamer as Streamer
from setebench.sim.spec.prefetchers import Stride as Stride
from setebench.sim.spec.prefetchers import UpDown as UpDown
from setebench.sim.spec.prefetchers import WhenFull as WhenFull
from setebench.sim.spec.published import SHORT_RUNS_UNSURE as SHORT_RUNS_UNSURE
from setebench.sim.spec.published import AccessMap as AccessMap
from setebench.sim.spec.published import BestOffset as BestOffset
from setebench.sim.spec.published import FeedbackStream as FeedbackStream
from setebench.sim.spec.published import InstructionClasses as InstructionClasses
from setebench.sim.spec.published import LocalDeltas as LocalDeltas
from setebench.sim.spec.published import NextPage as NextPage
from setebench.sim.spec.published import Published as Published
from setebench.sim.spec.published import ReferencePrediction as ReferencePrediction
from setebench.sim.spec.published import SignaturePath as SignaturePath
from setebench.sim.spec.published import SpatialPattern as SpatialPattern
from setebench.sim.spec.published import StreamBuffer as StreamBuffer
from setebench.sim.spec.table import Table as Table

AnyPrefetcher = Known | Published

FillLevel = Literal["l1", "l2", "l3", "none"]


class Clock(Table, frozen=True, kw_only=True):
    """The time-stamp counter and how it is read."""

    ticks_per_cycle: float = 1.0  # counter ticks per core cycle, the mean over time; > 0
    ticks_per_second: float = 2.0e9  # stated in Facts; the core runs at ticks_per_second / ticks_per_cycle
    step_ticks: float = 1.0  # the counter moves in steps of this many ticks, >= 1, may be fractional
    brackets: dict[str, float] = msgspec.field(default_factory=lambda: {"lfence": 20.0, "rdtscp": 25.0})
    # overhead of an empty interval in cycles for each bracket that works; the first is the machine's own choice
    drift: float = 0.0  # the core's frequency swings by this fraction around its mean, 0 to 0.2
    drift_period_cycles: float = 1.0e9  # one swing up and down
    jump: float = 0.0
    # the core's frequency jumps between this fraction above and below its mean, 0 to 0.2; with drift at most 0.2
    jump_period_cycles: float = 1.0e9  # how long it stays; of each two such times one is fast, one slow, in any order
    jitter_cycles: float = 0.0  # each reading takes up to this much longer or shorter, uniformly


class Noise(Table, frozen=True, kw_only=True):
    """What the system around does to a measurement; zero intervals turn a disturbance off."""

    interrupt_interval_cycles: float = 0.0  # mean cycles between interrupts (exponential); 0 = none
    interrupt_cycles: float = 5000.0  # cycles an interrupt takes
    interrupt_lines: int = 32  # lines that an interrupt brings into the core's caches
    stall_interval_cycles: float = 0.0  # mean cycles between short stalls (steal, refresh); 0 = none
    stall_cycles: float = 200.0  # cycles a stall takes
    co_runner_interval_cycles: float = 0.0
    # mean cycles until an unseen SMT co-runner starts on another thread of the core; for each thread; 0 = never
    co_runner_cycles: float = 1e8  # mean cycles that this lasts (exponential)
    co_runner_entries: int = 2  # level-1 miss entries that it holds all the time; fewer than there are
    co_runner_issue_share: float = 0.4  # fraction of the issue slots that it takes, 0 to 0.9
    co_runner_line_interval_cycles: float = 0.0
    # cycles between two lines that it brings into the core's caches, which come in batches; 0 = it brings none
    steal_interval_cycles: float = 0.0
    # mean cycles between two steals by the hypervisor, within an episode (exponential); 0 = never
    steal_cycles: float = 4e6  # cycles that one such time takes, half to one and a half times as long
    steal_lines: int = 512  # lines that it brings into the core's caches
    episode_interval_cycles: float = 0.0  # mean cycles without steal between episodes (exponential); 0 = none
    episode_cycles: float = 1e9  # mean cycles of an episode (exponential)
    loss_interval_cycles: float = 0.0
    # mean cycles between bursts (exponential) in which lines leave the core's private caches, and what lies below them,
    # by themselves, because others take their places in a directory of the whole host; 0 = never
    recorded: Literal["", "emerald-rapids-guest"] = ""
    # a recording of a real machine whose wandering pace and gaps (interrupts, steal) the core's clock replays, from a
    # random begin on; cycles stay as they are
    loss_share: float = 0.01  # fraction of the core's private lines that one such burst takes


class VectorExtra(Table, frozen=True, kw_only=True):
    """Cycles that a vector load takes longer than an 8-byte load, from whatever level."""

    bytes16: float = 0.0
    bytes32: float = 0.0
    bytes64: float = 0.0


class Core(Table, frozen=True, kw_only=True):
    """Cores and their pipelines."""

    cores: int = 1  # 1 to 64
    threads_per_core: int = 1  # SMT threads, 1 to 8; CPU number = thread * cores + core
    out_of_order: bool = True  # False: operations start in program order
    issue_width: int = 4  # instructions that enter the core per cycle, 1 to 12
    reorder_window: int = 224  # instructions between the oldest unfinished one and the newest, 1 to 1024
    load_queue: int = 72  # loads and software prefetches not yet retired, 1 to 512
    store_queue: int = 56  # stores and flushes not yet written, 1 to 512
    blocking_load: bool = False  # True: nothing starts before a load that missed level 1 is done
    blocking_store: bool = False  # the same for stores
    blocking_prefetch: bool = False  # the same for software prefetches
    multiply_cycles: float = 3.0  # latency of an integer multiplication
    integer_to_vector_cycles: float = 2.0  # moving a value from an integer to a vector register
    vector_to_integer_cycles: float = 2.0  # and back; a vector chase pays this per step, `after` a vector load once
    vector_load_extra: VectorExtra = VectorExtra()
    access_sizes: tuple[int, ...] = (8, 16, 32, 64)  # bytes per access that the core can do, of 8, 16, 32, 64
    flush_cycles: float = 40.0  # a flush takes this long
    flush_cached_extra_cycles: float = 0.0  # and this much more for a line that is in a cache
    smt_extra_cycles: float = 0.0  # every load takes this much longer while a sibling thread runs
    prefetcher_switches: bool = False  # True: hardware prefetchers can be switched off, as real CPUs' can


class Level(Table, frozen=True, kw_only=True):
    """One cache level. Level 1 and 2 are private to a core, level 3 is shared by all. Level 4 is a cache of memory: it
    is filled by what is read from memory and written to it, and knows nothing of the levels above."""

    sets: int  # in each slice; a power of two at level 1 and with hashed_index, else lines go by the remainder
    ways: int  # 1 to 32
    latency_cycles: float  # load to use of a hit here
    replacement: Literal[
        "lru", "tree_plru", "bit_plru", "nru", "fifo", "random", "lip", "bip", "srrip", "brrip", "qlru"
    ] = "lru"
    # bit_plru (also called MRU): a bit for each line, set by its use, and all others cleared when all are set; the
    # first line without one leaves; nru: a random one of those without; lip, bip: as lru, but new lines count as the
    # least recently used one, all or 31 in 32 (Qureshi et al., ISCA 2007)
    qlru: str = ""
    # the variant, where replacement is qlru, as "H11_M1_R0_U0": ages of two bits in the notation of Abel and Reineke
    # (ISPASS 2020), which `replacement_ages.py` explains; srrip is "H00_M2_R0_U0_UMO" and brrip "H00_MR322_R0_U0_UMO"
    inclusion: Literal["inclusive", "exclusive", "victim", "neither"] = "neither"
    # with respect to the levels above: inclusive = a line evicted here leaves them; exclusive = filled by their victims
    # and emptied by a hit; victim (level 3 only) = filled by their victims, and a hit leaves the line; ignored at level
    # 1 and 4
    hashed_index: bool = False  # the set is a hash of the whole physical line number
    physical_index: bool = False
    # level 1 only (the others always are): the set is bits of the physical line number, not of the virtual one, which
    # is something else where a way is larger than a page
    slices: int = 1  # level 3 only: parts with `sets` each; a hash of the physical line number says which, 1 to 64
    allocated_ways: int = 0  # of `ways` those that this program may fill, as a partition leaves it; 0 = all
    directory_sets: int = 0
    # level 3 only, power of two: of a directory of the lines that private caches hold, hashed, LRU; a line that loses
    # its place there leaves them; 0 = one without limits
    directory_ways: int = 0  # lines in each of its sets
    way_tag_bits: int = 0
    # level 1 only: a load's way is chosen by a hash of so many bits of its virtual address above those of the set, of
    # which the latest used line of the set is the one found; 0 = whole addresses are compared, nothing is mispredicted
    mispredicted_way_cycles: float = 0.0  # a load whose line is in another way than the one chosen takes so much longer
    ports: int = 2  # accesses that may start here per cycle, 1 to 12
    fill_interval_cycles: float = 1.0  # least time between two lines arriving in this level of one core
    mshr_entries: int = 10  # misses of this level in flight, all causes together; 0 = no limit; at most 512
    mshr_demand_limit: int = 0  # of these, at most so many by loads and stores; 0 = all
    mshr_prefetch_limit: int = 0  # at most so many by software prefetches; 0 = all
    mshr_hardware_limit: int = 0  # at most so many by hardware prefetchers; 0 = all
    mshr_shared_by_smt: bool = True  # False: each SMT thread has mshr_entries of its own


class TlbTable(Table, frozen=True, kw_only=True):
    """One data TLB for one page size."""

    entries: int = 64  # 0 = there is no such table: every lookup misses it at no cost of its own
    ways: int = 0  # 0 = fully associative; else entries / ways must be a power of two
    index: Literal["linear", "hashed", "skewed"] = "linear"
    # the set is low bits of the page number, a hash of all of it, or for each way a hash of its own
    pages_per_entry: int = 1
    # 4 KiB pages that share an entry where they are neighbours, aligned, in virtual and in physical memory; 1 to 16
    miss_penalty_cycles: float = 7.0
    # level 1: a load that misses here and hits level 2 takes this much longer than with a hit;
    # level 2: a load that misses both takes this much longer than with a level-1 hit (the page walk included)


class Tlb(Table, frozen=True, kw_only=True):
    """Data TLBs, private to a core, LRU. Stores look into l1_4k and l1_2m, or, where they are given, into tables of
    their own, which count as level 1; the page of the latest access is then that of the latest load."""

    l1_4k: TlbTable = TlbTable()
    l2_4k: TlbTable = TlbTable(entries=1536, ways=12, miss_penalty_cycles=40.0)
    l1_2m: TlbTable = TlbTable(entries=32)
    l2_2m: TlbTable = TlbTable(entries=1024, ways=8, miss_penalty_cycles=30.0)
    l1_4k_store: TlbTable | None = None  # of stores, both or none
    l1_2m_store: TlbTable | None = None  # the same for 2 MiB pages
    walkers: int = 2  # page walks of a core at once, 1 to 16
    walk_cache_entries: int = 0
    # 2 MiB pieces of address space whose upper levels of the page table a core keeps at hand (LRU); 0 = of all
    walk_cache_miss_cycles: float = 30.0  # what the walk to a 4 KiB page in any other piece takes longer


class Memory(Table, frozen=True, kw_only=True):
    """Main memory and its pages."""

    bytes: int = 1 << 34  # what may be allocated; only what is used takes memory of the host
    latency_cycles: float = 300.0
    # load to use of a miss in every cache, the mean; where rows matter, in another row than its bank had open
    spread_cycles: float = 0.0  # latency varies uniformly by up to this much up or down
    interval_cycles: float = 0.0  # least time between two lines from memory (all cores together); 0 = no limit
    banks: int = 0  # 0 = no bank conflicts; else at most 1024
    bank_busy_cycles: float = 0.0  # an access keeps its bank busy so long
    row_bytes: int = 0  # power of two: what a bank keeps open since its last access; 0 = rows make no difference
    row_hit_saves_cycles: float = 0.0  # an access to a row that is open takes so much less
    page_sizes: tuple[int, ...] = (4096, 2097152)  # page sizes on offer, of 4096 and 2097152
    huge_pages_splintered: bool = False  # True: 2 MiB pages count as 4 KiB pages in the TLBs (a hypervisor's doing)
    huge_pages_contiguous: bool = True  # False: the 4 KiB parts of a 2 MiB page are scattered over physical memory
    frame_run_pages: int = 1
    # power of two: so many neighbouring 4 KiB pages lie in one piece of physical memory, as aligned, as a buddy
    # allocator often has them; 1 to 512
    page_fault_4k_cycles: float = 2000.0  # first touch of a page that was not populated, over a TLB miss
    page_fault_2m_cycles: float = 100000.0


class RemoteMemory(Table, frozen=True, kw_only=True):
    """Another socket's memory, memory node 1. Pages lie there where they are bound to it, in pieces of 2 MiB. Lines
    read from there come later than those of near memory, over a link; those written back count as near memory's."""

    bytes: int = 1 << 32  # what may be bound there; only what is used takes memory of the host
    further_cycles: float = 100.0  # what a read takes longer than one of near memory
    link_interval_cycles: float = 0.0  # least time between two lines over the link (all cores together); 0 = no limit


class Hint(Table, frozen=True, kw_only=True):
    """What a software-prefetch hint does."""

    fills: FillLevel = "l1"  # nearest level that gets the line; levels below get it too; none = no operation
    exclusive: bool = False  # takes the line for writing: other cores lose it
    bypasses_l2: bool = False  # a line for l1 is not put into l2 on its way (l2 must not be inclusive)


def _usual_hints() -> dict[str, Hint]:
    return {
        "t0": Hint(),
        "t1": Hint(fills="l2"),
        "t2": Hint(fills="l2"),
        "nta": Hint(),
        "w": Hint(exclusive=True),
    }


class SoftwarePrefetch(Table, frozen=True, kw_only=True):
    """Software prefetches. Whether they train a hardware prefetcher is that one's `trained_by`."""

    hints: dict[str, Hint] = msgspec.field(default_factory=_usual_hints)  # of t0 t1 t2 nta w; others are unavailable
    on_l1_tlb_miss: bool = True  # still done when it misses the level-1 TLB
    on_l2_tlb_miss: bool = True  # still done when it misses both TLBs
    on_page_fault: bool = False  # still done on a page that was never touched (without the fault's cost)
    across_page: bool = True  # still done in another 4 KiB page than the latest load or store
    when_full: WhenFull = "stalls"  # when the level it fills has no miss entry free
    lower_hint_takes_l1_entry: bool = False  # a hint that fills l2 or l3 takes a level-1 miss entry as well


class Coherence(Table, frozen=True, kw_only=True):
    """Several cores and the interconnect. Totals load to use; `distance_cycles[a][b]` is added to each."""

    modified_cycles: float = 100.0  # a line that another core's caches hold modified
    exclusive_cycles: float = 100.0  # exclusive (clean, only there)
    shared_cycles: float = 0.0  # clean and held by several; 0 = level 3 or memory delivers it
    invalidate_cycles: float = 60.0  # a store or exclusive prefetch to a line that other cores hold as well: extra time
    invalidate_per_sharer_cycles: float = 0.0  # and this much more for every holder after the first
    distance_cycles: tuple[tuple[float, ...], ...] = ()  # cores x cores; empty = zero everywhere


class Machine(Table, frozen=True, kw_only=True):
    """A machine file."""

    name: str
    description: str = ""
    line_size_bytes: int = 64  # 32, 64 or 128
    clock: Clock = Clock()
    noise: Noise = Noise()
    core: Core = Core()
    levels: tuple[Level, ...]  # two to four; the first is level 1
    tlb: Tlb = Tlb()
    memory: Memory = Memory()
    remote_memory: RemoteMemory | None = None
    software_prefetch: SoftwarePrefetch = SoftwarePrefetch()
    prefetchers: tuple[AnyPrefetcher, ...] = ()  # at most 16
    coherence: Coherence = Coherence()
    pmu: Pmu | None = None
