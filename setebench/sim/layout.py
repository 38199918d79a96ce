"""Where everything of a simulated machine lies in its two integer arrays.

`c` holds the configuration, `s` all state; both are int64 and one-dimensional, so the kernel has a single compiled
signature whatever the machine. Times are fixed-point: `UNIT` parts of a core cycle, divisible by every issue width and
port count up to 12. This module only names indices, those of a machine file's numbers after its fields;
`build.py` fills the arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import msgspec

from setebench.sim import spec
from setebench.sim.spec.replacement_ages import Ages

if TYPE_CHECKING:

    def __getattr__(name: str) -> int: ...  # names that `_named` makes


LISTS = {"trigger_at_page_edge": 4, "ramp": 4} | dict.fromkeys(("leads", "leads_by_twos", "leads_beyond"), 32)
"""Fields of prefetchers that are lists, and their most numbers: a word says how many there are, these follow."""


def _named(word: int, *tables: tuple[str, type[msgspec.Struct]]) -> int:
    """Give words from this one on the names of tables' fields behind these prefixes; returns the next word. Of a choice
    a word has the place of the value."""
    for prefix, table in tables:
        for field in table.__struct_fields__:
            globals()[prefix + field.upper()] = word
            word += 1 + LISTS.get(field, 0)
    return word


KINDS: tuple[type[spec.Prefetcher], ...] = get_args(spec.AnyPrefetcher)
"""Kinds of prefetchers, which their places number."""


UNIT = 27720
NEVER = 1 << 62
KIND, BASE, OFFSET, SIZE, VARIANT, COUNT, IP, AFTER, INTERVAL, DITHER, VALUE, ROW_WORDS = range(12)
"""Columns of a row as the kernel reads it: those of a probe, and when its value is there."""
DESCRIPTION, SPACING = INTERVAL, DITHER
"""Columns of a streaming kernel's row, which has no other use for them: what the kernel does, as a word with a bit for
each array that it reads, writes and fetches, its arithmetic, and its ways; and how far apart its arrays lie."""
ARRAYS = 4
WRITES_AT, FETCHES_AT, FLOPS_AT, BYPASS_AT, RANDOM_AT, EXCLUSIVE_AT, ROLLED_AT = 4, 8, 12, 16, 17, 18, 19
PAGE_BITS = 12
HUGE_BITS = 21
BASE_ADDRESS = 1 << 40  # first simulated virtual address
IDLE_CYCLES = 60  # what the loop around a probe takes between two repetitions
MAX_PREFETCHERS = 16
MOST_WAYS = 32
HOST_LINE_WORDS = 8  # of the caches that the simulator itself runs in
MOST_LEVELS = 3
LOSS_PARTS = 1 << 20
MAX_INTERVALS = 64

PORT_SLOTS = 2048
"""Slots of a port's calendar: how far ahead, in its own intervals, it may be taken."""
PORT_MASK = PORT_SLOTS - 1
PORT_INTERVAL = PORT_SLOTS  # that a use takes, 0 where no use waits for another
PORT_FULL_FROM, PORT_FULL_TO, PORT_WORDS = range(PORT_SLOTS + 1, PORT_SLOTS + 4)
MAX_OUT = 1024  # lines that one training may request: 16 prefetchers, 64 lines of a region each

# -- configuration: scalars -----------------------------------------------------------------------------------------
(
    C_LINE_BITS,
    C_PAGE_LINES_BITS,
    C_ISSUE,
    C_TRANSFER,
    C_LEVELS,
    C_WALKERS,
    C_CO_RUNNER_ISSUE,  # what each instruction takes longer meanwhile
    C_CPUID,
    C_PREFETCHERS,
    C_L1_PREFETCHERS,
    C_L2_PREFETCHERS,
    C_PAGES,
    # offsets into s
    C_THREADS,
    C_RINGS,  # of release times of every thread: its reorder window, loads and stores
    C_EVENTS,
    C_WALK_SLOTS,
    C_MEMORY_PORT,
    C_OUT,
    C_PAGE_TABLE,
    C_FRAME_TABLE,
    C_SHARERS,  # of every page the cores that may have lines in their caches
    C_LINKS,  # an address for every line
    # offsets into c
    C_DISTANCE,
    C_COUNTING,  # whether events are counted
    C_FAR_L3,  # whether level 3 is too large for the host's near caches
    # of a recording that is replayed
    C_REPLAY,  # offset into s: when co-runners come, how long they stay, and shares of lines lost
    C_REPLAY_SHARED,  # such co-runners
    C_REPLAY_LOST,  # such shares, evenly spread
    C_REPLAY_BEGIN,  # where in the recording the machine begins
    C_REPLAY_PERIOD,  # of the whole
    C_LAST,
) = range(31)

# -- configuration: records -----------------------------------------------------------------------------------------
(
    L_INDEX,  # BY_VIRTUAL_BITS, BY_BITS or BY_REMAINDER of the physical line number, or BY_HASH of it
    L_SET_BITS,  # of a set's number, rounded down
    L_SLOTS,
    L_SLOT_WORDS,
    L_LINES,  # offset into s: sets one after the other
    L_SET_WORDS,  # from one set to the next
    L_READY,  # from a line's word to the time at which its data arrive
    L_TREE,  # from a set's first word to its tree-PLRU bits
    L_TREE_WAYS,  # leaves of that tree: the ways, rounded up to a power of two
    L_PORTS,
    L_FILLS,
    L_WORDS,
) = range(12)
C_LAST = _named(C_LAST, ("C_", spec.Core), ("C_", spec.VectorExtra), ("C_", spec.Noise), ("C_", spec.Coherence))
C_LAST = _named(C_LAST, ("C_", spec.Clock), ("C_MEMORY_", spec.Memory), ("C_PF_", spec.SoftwarePrefetch))
L_WORDS = _named(L_WORDS, ("L_", spec.Level), ("L_", Ages))
C_LEVEL = C_LAST

(X_SETS, X_TABLE, X_SET_BITS, X_WORDS) = range(4)
X_WORDS = _named(X_WORDS, ("X_", spec.TlbTable))
TLB_TABLES = 4
C_TLB = C_LEVEL + MOST_LEVELS * L_WORDS  # tables in the order l1 4k, l1 2m, l2 4k, l2 2m

H_WORDS = _named(0, ("H_", spec.Hint))
C_HINT = C_TLB + TLB_TABLES * X_WORDS

C_BRACKET = C_HINT + 5 * H_WORDS  # overhead per bracket, -1 where it does not work

(
    P_KIND,
    P_TRAINED,
    P_STATE,
    P_CORE_WORDS,  # from one core's state to the next
    P_THREAD_WORDS,  # the same of SMT threads, 0 where they share it
    P_OWN,
) = range(6)
_named(P_OWN, ("P_", spec.Prefetcher))
# what all kinds have, then its own fields as KIND_FIELD, up to the longest
P_WORDS = max(_named(P_OWN, (f"{str(kind.__struct_config__.tag).upper()}_", kind)) for kind in KINDS)
C_PREFETCHER = C_BRACKET + 5
STATE_WORDS = 12 << 10
"""Room for the state of one prefetcher: 1024 records of the largest kind. What is never used takes no memory."""
C_WORDS = C_PREFETCHER + MAX_PREFETCHERS * P_WORDS

LRU, RANDOM, FIFO, TREE_PLRU, AGES = range(5)
BY_VIRTUAL_BITS, BY_BITS, BY_REMAINDER, BY_HASH = range(4)
NEITHER, INCLUSIVE, EXCLUSIVE, VICTIM = range(4)
DEMAND, SOFTWARE, HARDWARE = range(3)
BY_LOAD, BY_STORE, BY_PREFETCH, BY_L1_PREFETCHER = range(4)
SOURCES = ("load", "store", "prefetch", "l1_prefetcher")

# -- state: scalars -------------------------------------------------------------------------------------------------
(
    S_RANDOM,
    S_NOW,
    S_STAMP,
    S_USES,  # uses of lines in caches so far, less those forgotten before they outgrow a line's word
    S_QUANTUM,  # operations, or steps of a chase, that a thread makes at once, -1 for all
    S_ENTRY,  # result of an access: when it got its miss entry (or started, on a hit)
    S_SERVED,  # result: who served it: level 1 to 3, memory (4), another core (5)
    S_FOUND_META,  # result of a lookup below: DIRTY and OWNED of the line found
    S_FAULT,  # result: operation that touched an unmapped page, plus one
    S_FAULT_ADDRESS,
    # the access that prefetchers are shown: its address, its line, the instruction's address, whether the prefetcher's
    # level missed it, and what it is (BY_)
    S_SEEN_ADDRESS,
    S_SEEN_LINE,
    S_SEEN_IP,
    S_SEEN_MISSES,
    S_SEEN_SOURCE,
    S_SEEN_FILL,
    S_WANTED,  # where the next line lies that a prefetcher requests
    S_DEGREE,  # lines that a stream brings at once now
    S_DISTANCE,  # and how far ahead it goes
    S_WORDS,
) = range(20)

# state of a hardware thread
(
    T_CPU,
    T_CORE,
    T_WINDOW_RING,  # where its rings of release times lie
    T_LOAD_RING,
    T_STORE_RING,
    T_CLOCK,  # when its next instruction may enter the core
    T_COMPLETE,  # when all its instructions so far are complete
    T_DRAINED,  # when all its stores and flushes so far are
    T_RETIRED,
    T_STORED,  # when its latest store was written
    T_CHAIN,
    T_CHAIN_MULTIPLY,
    T_CHAIN_TRANSFER,
    T_WINDOW_POS,
    T_LOAD_POS,
    T_STORE_POS,
    T_PAGE,
    T_FIRST,  # of its rows
    T_END,
    T_FIRST_COLUMN,  # of the placements of a repetition
    T_FIRST_OUT,  # of its ticks
    T_ROW,
    T_COLUMN,  # where its addresses of this repetition begin
    T_OUT,  # where its ticks do
    T_LOOP_ROW,
    T_LOOP_LEFT,
    T_ADVANCE,
    T_CHASE_ADDRESS,
    T_CHASE_LEFT,
    T_CHASE_READY,
    T_DISTURBED,  # when the first of these is due: 0 where none was set yet
    T_INTERRUPT,
    T_CO_RUNNER,  # when a co-runner comes to another thread of the core
    T_LOSS,  # when lines leave the private caches by themselves
    T_CO_RUNNER_LEAVES,
    T_WAITING,
    T_WAITS_FOR,  # what the instruction is that completes next: FOR_CHAIN, FOR_LOAD, FOR_MISS, 0 for others
    T_WAITED_FOR,  # what it was before which the latest idle cycles lie
    T_BUSY_CYCLE,  # the latest of these in which something completed after all
    T_MISS_CYCLE,  # in which the latest miss of a load began
    T_L1_FULL_UNTIL,  # ends of the spans counted so far
    T_L2_FULL_UNTIL,
    T_IN_FLIGHT_UNTIL,
    T_STARTED,
) = range(44)
T_ENTRY = T_STARTED + MAX_INTERVALS  # of each level, the miss entry taken last, and that of its cause's own
T_LIMITED = T_ENTRY + MOST_LEVELS
T_WORDS = T_LIMITED + MOST_LEVELS
FOR_CHAIN, FOR_LOAD, FOR_MISS = 1, 2, 3

SAME = {"offcore_mem_read": "mem_read", "home_read": "mem_read", "home_write": "mem_write"}
"""Roles whose events count what others' do."""
COUNTED = (
    *(role for role in spec.SIMULATED_ROLES if role not in SAME),
    *("l1d_fill_prefetched", "l2_fill_prefetched", "mem_read_prefetched"),  # those of hardware prefetchers
    "in_flight_fours",  # whole fours of misses in flight, over cycles
    "chain_wait",  # cycles without execution in which instructions wait for each other
)
"""What a core counts, a word each, as E_ROLE; cycles of all kinds but the first only while events are counted."""
EVENTS = {name: word for word, name in enumerate(COUNTED)}
EVENT_WORDS = len(EVENTS)
globals().update({f"E_{name.upper()}": word for name, word in EVENTS.items()})

# A line's word in a cache: line number (32 bits do: 128 GiB of pages in lines of 32 bytes), when it was used last
# (counted in uses of all caches, 27 bits, 0: never), three marks. One word for all of it, as a set that spans fewer
# lines of the host's caches is searched faster.
DIRTY, OWNED = 1, 2
WAY_TAG_LOST = 4  # in level 1: another line of the set has the same way tag and was used later
MARK_BITS, USE_BITS = 3, 27
LINE_SHIFT = MARK_BITS + USE_BITS
LAST_USE = (1 << USE_BITS) - 1
EMPTY = -1 << LINE_SHIFT  # a line number that no line has, never used

# bits of a page-table word beside the frame number
MAPPED, PRESENT, HUGE, HUGE_TLB = 1, 2, 4, 8
FRAME_BITS = 4

# floating-point settings of the clock
(
    F_TICKS_PER_CYCLE,
    F_STEP_TICKS,
    F_DRIFT,
    F_DRIFT_PERIOD_CYCLES,
    F_PHASE,
    F_DRIFT_PHASE,
    F_BLOCKS,  # of the recording that is replayed behind these words, 0 for none
    F_GAPS,  # in all of it
    F_BLOCK_CYCLES,  # of a block at the median pace
    F_BLOCK_TICKS,
    F_BEGIN,  # where in the recording the machine begins, in blocks
    F_WORDS,
) = range(12)
