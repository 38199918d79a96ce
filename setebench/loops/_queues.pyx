# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A loop's misses in the machine's queues, line by line. What is modelled, and why, is said in queues.py; here it is
compiled, because advice plays through some hundred passes for each loop."""

cimport cython
from libc.math cimport ceil
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

cdef enum:
    SOURCES = 4
    LEVELS = 2
    DEMAND = 0
    SOFTWARE = 1
    HARDWARE = 2
    CAUSES = 3
    CONTIGUOUS = 0
    STRIDED = 1
    IRREGULAR = 2
    BY_LOAD = 1
    BY_STORE = 2
    BY_PREFETCH = 4
    BY_L1_PREFETCHER = 8
    NEIGHBOUR_PAIR = 0
    NEIGHBOUR_NEXT = 1
    BY_STRIDE = 2
    BY_STREAM = 3
    SMALL_PAGE_LINES = 64
    REACH = 320

cdef double ABSENT = -1.0
cdef double LEAST_FILLED = 0.5

cdef struct Pool:
    int size
    int held
    double *until


cdef struct Stream:
    int pattern
    int steps
    int each
    bint chase
    bint prefetched
    bint store
    bint one_page
    double lines
    int64_t step_lines
    int64_t pages
    int64_t page_lines
    double in_second_tlb
    int sources
    double part[SOURCES]
    double latency[SOURCES]
    int64_t low
    int64_t count
    double *near
    double *far
    double *third
    int64_t *near_age
    int64_t *far_age
    int64_t *seen
    int *watched
    int64_t *following
    int64_t *trained


cdef struct Prefetcher:
    int level
    int kind
    int causes
    int fills
    int trigger
    int edge_trigger
    int degree
    int reach
    int64_t most_step
    bint crosses
    bint by_page
    int64_t streams
    int64_t allocated


cdef int _make(Pool *pool, double entries) except -1:
    pool.size = <int>max(1.0, min(entries, 512.0))
    pool.held = 0
    pool.until = <double *>calloc(pool.size, sizeof(double))
    if pool.until == NULL:
        raise MemoryError
    return 0


cdef inline double _when(Pool *pool, double t) noexcept nogil:
    """When an entry is had by what asks at t: the heap's first is the one that is free first."""
    if pool.held < pool.size or pool.until[0] <= t:
        return t
    return pool.until[0]


cdef void _hold(Pool *pool, double until) noexcept nogil:
    """Hold the entry that is free first."""
    cdef int at, child
    cdef double *heap = pool.until
    if pool.held < pool.size:
        at = pool.held
        pool.held += 1
        while at > 0 and heap[(at - 1) // 2] > until:
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = until
        return
    at = 0
    while True:
        child = 2 * at + 1
        if child >= pool.size:
            break
        if child + 1 < pool.size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= until:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = until


cdef inline uint64_t _mixed(uint64_t a, uint64_t b) noexcept nogil:
    """Bits that look drawn at random, the same for the same numbers (Steele et al. 2014, SplitMix64)."""
    cdef uint64_t z = a * <uint64_t>0x9E3779B97F4A7C15 + b * <uint64_t>0xD1B54A32D192ED03 + 1
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline double _drawn(uint64_t a, uint64_t b) noexcept nogil:
    return <double>(_mixed(a, b) >> 11) / 9007199254740992.0


cdef inline int64_t _floor_div(int64_t a, int64_t b) noexcept nogil:
    return a // b if a >= 0 else -((b - 1 - a) // b)


@cython.final
cdef class Passes:
    """Passes of one loop on one machine, each with a policy and a core of its own."""

    cdef int streams_count, prefetchers_count, tlb_entries
    cdef Stream *streams
    cdef Prefetcher *prefetchers
    cdef Pool total[LEVELS]
    cdef Pool limit[LEVELS][CAUSES]
    cdef Pool walkers
    cdef double latency[3]
    cdef double entries[LEVELS][CAUSES]
    cdef double tlb_near, tlb_far
    cdef bint second_tlb, drops, dropped_at_first, dropped_at_second, across, stalls_stores, stalls_prefetches
    cdef int64_t *tlb_keys
    cdef int64_t *tlb_stamps
    cdef int64_t stamp, latest
    cdef double capacity[LEVELS]
    cdef double second_entries
    cdef int64_t filled[LEVELS]
    cdef int64_t walked
    cdef double work, clock, last, chain_ready, factor
    cdef int64_t furthest
    cdef bint blocking, in_order

    def __cinit__(self, machine, streams, prefetchers):
        """`machine`, `streams` and `prefetchers` are dictionaries, as queues.py makes them."""
        self.streams_count, self.prefetchers_count = len(streams), len(prefetchers)
        self.streams = <Stream *>calloc(max(1, self.streams_count), sizeof(Stream))
        self.prefetchers = <Prefetcher *>calloc(max(1, self.prefetchers_count), sizeof(Prefetcher))
        self.tlb_entries = machine["tlb_entries"]
        self.tlb_keys = <int64_t *>calloc(max(1, self.tlb_entries), sizeof(int64_t))
        self.tlb_stamps = <int64_t *>calloc(max(1, self.tlb_entries), sizeof(int64_t))
        if not (self.streams and self.prefetchers and self.tlb_keys and self.tlb_stamps):
            raise MemoryError
        for level in range(3):
            self.latency[level] = machine["latency"][level]
        for level in range(LEVELS):
            for cause in range(CAUSES):
                self.entries[level][cause] = machine["entries"][level][cause]
        self.tlb_near, self.tlb_far = machine["tlb_penalties"]
        self.second_tlb, self.second_entries = machine["second_tlb"] > 0, machine["second_tlb"]
        for level in range(LEVELS):
            self.capacity[level] = machine["capacity"][level]
        self.drops, self.across = machine["drops"], machine["across_page"]
        self.dropped_at_first, self.dropped_at_second = machine["dropped_on_tlb_miss"]
        self.stalls_stores, self.stalls_prefetches = machine["blocking_store"], machine["blocking_prefetch"]
        for number, own in enumerate(streams):
            self._stream(&self.streams[number], own)
        for number, own in enumerate(prefetchers):
            self._prefetcher(&self.prefetchers[number], own)

    cdef int _stream(self, Stream *stream, own) except -1:
        stream.pattern, stream.steps, stream.each = own["pattern"], own["steps"], own["each"]
        stream.chase, stream.prefetched, stream.store = own["chase"], own["prefetched"], own["store"]
        stream.one_page = own["one_page"]
        stream.lines, stream.step_lines = own["lines"], own["step_lines"]
        stream.pages, stream.page_lines = own["pages"], own["page_lines"]
        stream.in_second_tlb = own["in_second_tlb"]
        stream.sources = min(len(own["sources"]), SOURCES)
        for k in range(stream.sources):
            stream.part[k], stream.latency[k] = own["sources"][k]
        return 0

    cdef int _prefetcher(self, Prefetcher *prefetcher, own) except -1:
        prefetcher.level, prefetcher.kind, prefetcher.causes = own["level"], own["kind"], own["causes"]
        prefetcher.fills, prefetcher.trigger = own["fills"], own["trigger"]
        prefetcher.edge_trigger, prefetcher.degree = own["edge_trigger"], own["degree"]
        prefetcher.reach, prefetcher.most_step = min(own["reach"], REACH - 32), own["most_step"]
        prefetcher.crosses, prefetcher.by_page = own["crosses"], own["by_page"]
        prefetcher.streams = own["streams"]
        return 0

    def __dealloc__(self):
        self._release()
        free(self.streams)
        free(self.prefetchers)
        free(self.tlb_keys)
        free(self.tlb_stamps)

    # -- one pass ----------------------------------------------------------------------------------------------------

    def cycles(self, stages, core, span, double latency_factor=1.0):
        """Cycles per iteration. `stages`: (distance, level that is filled) of each, furthest first; `core`: (window in
        iterations, blocking, in order, walkers); `span`: (cycles of work, warm and timed iterations)."""
        cdef double window, work
        cdef int64_t warm, timed
        window, self.blocking, self.in_order, walkers = core
        work, warm, timed = span
        self.work = work
        self.furthest = max([distance for distance, _ in stages], default=0)
        cdef int64_t distances[2]
        cdef int fills[2]
        cdef int number = 0
        for distance, level in stages:
            distances[number], fills[number] = distance, level
            number += 1
        try:
            self._begin(warm + timed, walkers, latency_factor)
            return self._pass(window, warm, timed, distances, fills, number)
        finally:
            self._release()

    cdef double _pass(self, double window, int64_t warm, int64_t timed, int64_t *distances, int *fills,
                      int stages) except -1.0:
        cdef double *done = <double *>calloc(warm + timed, sizeof(double))
        cdef double begin = 0.0, oldest, part
        cdef int64_t i, low
        cdef int stage
        if done == NULL:
            raise MemoryError
        try:
            with nogil:
                for i in range(warm + timed):
                    if i == warm:
                        begin = max(self.clock, done[i - 1]) if i else self.clock
                    oldest = i - window
                    if oldest >= 0 and not self.blocking:
                        low = <int64_t>oldest
                        part = oldest - low
                        if low + 1 < i:
                            self.clock = max(self.clock, done[low] * (1 - part) + done[low + 1] * part)
                        else:
                            self.clock = max(self.clock, done[low])
                    self.last = self.clock
                    self._accesses(i)
                    for stage in range(stages):
                        self._prefetches(i, distances[stage], fills[stage])
                    self.clock += self.work
                    done[i] = max(self.last, self.clock)
                    if i and done[i - 1] > done[i]:
                        done[i] = done[i - 1]
            # a line that is long under way as the timed part begins may come after its end, but its work takes time
            return max(self.work, (max(self.clock, done[warm + timed - 1]) - begin) / timed)
        finally:
            free(done)

    cdef int _begin(self, int64_t iterations, int walkers, double latency_factor) except -1:
        cdef int level, cause, number
        cdef int64_t first, last, k
        cdef Stream *stream
        self.clock = self.chain_ready = 0.0
        self.factor = latency_factor
        self.stamp = self.walked = 0
        self.latest = -1
        self.filled[0] = self.filled[1] = 0
        for number in range(self.prefetchers_count):
            self.prefetchers[number].allocated = 0
        for level in range(LEVELS):
            _make(&self.total[level], max(self.entries[level][DEMAND], self.entries[level][SOFTWARE]))
            for cause in range(CAUSES):
                _make(&self.limit[level][cause], self.entries[level][cause])
        _make(&self.walkers, walkers)
        for number in range(self.streams_count):
            stream = &self.streams[number]
            first, last = -(stream.steps - 1) * self.furthest, iterations + self.furthest + 1
            stream.low = self._first_line(stream, first, 0) - 1
            stream.count = self._first_line(stream, last, 0) - stream.low + REACH
            stream.near = <double *>calloc(stream.count, sizeof(double))
            stream.far = <double *>calloc(stream.count, sizeof(double))
            stream.third = <double *>calloc(stream.count, sizeof(double))
            stream.near_age = <int64_t *>calloc(stream.count, sizeof(int64_t))
            stream.far_age = <int64_t *>calloc(stream.count, sizeof(int64_t))
            stream.seen = <int64_t *>calloc(stream.count, sizeof(int64_t))
            stream.watched = <int *>calloc(stream.count * max(1, self.prefetchers_count), sizeof(int))
            stream.following = <int64_t *>calloc(stream.count * max(1, self.prefetchers_count), sizeof(int64_t))
            stream.trained = <int64_t *>calloc(stream.count * max(1, self.prefetchers_count), sizeof(int64_t))
            if not (stream.near and stream.far and stream.third and stream.near_age and stream.far_age
                    and stream.seen and stream.watched and stream.following and stream.trained):
                raise MemoryError
            for k in range(stream.count):
                stream.near[k] = stream.far[k] = stream.third[k] = ABSENT
        for k in range(self.tlb_entries):  # as the iterations before left it: pages of streams that go anywhere
            number = <int>(k % self.streams_count)
            stream = &self.streams[number]
            self.tlb_keys[k] = -1
            self.tlb_stamps[k] = -self.tlb_entries + k
            if stream.pattern == IRREGULAR:
                self.tlb_keys[k] = self._key(number, <int64_t>(_mixed(number, 7919 + k) % <uint64_t>stream.pages))
        return 0

    cdef void _release(self) noexcept:
        cdef int level, cause, number
        cdef Stream *stream
        for level in range(LEVELS):
            free(self.total[level].until)
            self.total[level].until = NULL
            for cause in range(CAUSES):
                free(self.limit[level][cause].until)
                self.limit[level][cause].until = NULL
        free(self.walkers.until)
        self.walkers.until = NULL
        for number in range(self.streams_count):
            stream = &self.streams[number]
            free(stream.near)
            free(stream.far)
            free(stream.third)
            free(stream.near_age)
            free(stream.far_age)
            free(stream.seen)
            free(stream.watched)
            free(stream.following)
            free(stream.trained)
            stream.near = stream.far = stream.third = NULL
            stream.near_age = stream.far_age = stream.seen = NULL
            stream.watched = NULL
            stream.following = stream.trained = NULL

    # -- one iteration -----------------------------------------------------------------------------------------------

    cdef inline int64_t _first_line(self, Stream *stream, int64_t i, int step) noexcept nogil:
        """The first of the lines that a stream touches in an iteration for the first time, as numbers of its own."""
        if stream.pattern == CONTIGUOUS:
            return <int64_t>ceil(i * stream.lines)
        if stream.pattern == STRIDED:
            return i * stream.each * stream.step_lines
        return (i * stream.steps + step) * stream.each

    cdef inline int64_t _end_line(self, Stream *stream, int64_t i, int step) noexcept nogil:
        if stream.pattern == IRREGULAR:
            return self._first_line(stream, i, step) + stream.each
        return self._first_line(stream, i + 1, 0)

    cdef void _accesses(self, int64_t i) noexcept nogil:
        cdef int number
        cdef Stream *stream
        cdef int64_t line, end
        for number in range(self.streams_count):
            stream = &self.streams[number]
            if stream.steps > 1 or stream.chase:
                self._dependent(number, stream, i)
                continue
            line, end = self._first_line(stream, i, 0), self._end_line(stream, i, 0)
            while line < end:
                self._access(number, stream, line, self.clock)
                line += stream.step_lines

    cdef void _dependent(self, int number, Stream *stream, int64_t i) noexcept nogil:
        """Accesses of which each needs the one before: of one lookup, or of the iteration before."""
        cdef double ready = self.chain_ready if stream.chase else self.clock
        cdef int64_t line, end, behind
        cdef int step
        for step in range(stream.steps):
            behind = step * self.furthest if stream.prefetched else 0
            if behind:
                ready = self.clock  # the step before was another iteration's work
            line, end = self._first_line(stream, i - behind, step), self._end_line(stream, i - behind, step)
            while line < end:
                ready = self._access(number, stream, line, max(self.clock, ready))
                if self.in_order:
                    self.clock = max(self.clock, ready)
                line += stream.step_lines
        if stream.chase:
            self.chain_ready = ready

    # -- accesses ----------------------------------------------------------------------------------------------------

    cdef inline double _entry(self, int level, int cause, double t) noexcept nogil:
        return max(_when(&self.total[level], t), _when(&self.limit[level][cause], t))

    cdef inline void _keep(self, int level, int cause, double until) noexcept nogil:
        _hold(&self.total[level], until)
        _hold(&self.limit[level][cause], until)

    cdef inline bint _forgotten(self, int64_t since, double capacity, int number, int64_t line) noexcept nogil:
        """Whether a table of so many entries has lost one that was put there so many others ago. With some ways a set
        the first go at half the entries and half of them at all: a set gets its others at random."""
        return since > capacity * (LEAST_FILLED + _drawn(number + 61, <uint64_t>line))

    cdef inline bint _in_near(self, int number, Stream *stream, int64_t at) noexcept nogil:
        if stream.near[at] != ABSENT and self._forgotten(
                self.filled[0] - stream.near_age[at], self.capacity[0], number, at):
            stream.near[at] = ABSENT
        return stream.near[at] != ABSENT

    cdef inline bint _in_far(self, int number, Stream *stream, int64_t at) noexcept nogil:
        if stream.far[at] != ABSENT and self._forgotten(
                self.filled[1] - stream.far_age[at], self.capacity[1], number, at):
            stream.far[at] = ABSENT
        return stream.far[at] != ABSENT

    cdef inline void _put_near(self, Stream *stream, int64_t at, double done) noexcept nogil:
        self.filled[0] += 1
        stream.near[at], stream.near_age[at] = done, self.filled[0]

    cdef inline void _put_far(self, Stream *stream, int64_t at, double done) noexcept nogil:
        self.filled[1] += 1
        stream.far[at], stream.far_age[at] = done, self.filled[1]

    cdef double _access(self, int number, Stream *stream, int64_t line, double t) noexcept nogil:
        """A load or store; when it is done."""
        cdef int64_t at = line - stream.low
        cdef double done, start
        cdef bint missed
        cdef int cause = BY_STORE if stream.store else BY_LOAD
        t = self._translated(number, stream, line, t)
        self.latest = self._small_page(number, stream, line)
        start = t
        if self._in_near(number, stream, at):
            done = max(t + self.latency[0], stream.near[at])
            missed = stream.near[at] > t
        else:
            start = self._entry(0, DEMAND, t)
            done = self._level_two(number, stream, line, &start, DEMAND, cause)
            self._keep(0, DEMAND, done)
            self._put_near(stream, at, done)
            missed = True
            if self.in_order:
                self.clock = max(self.clock, start)
        if missed and (self.stalls_stores if stream.store else self.blocking):
            self.clock = max(self.clock, done)
        if self.prefetchers_count:
            self._train(1, number, stream, line, missed, cause, t)
        # a store leaves the core before its line is there
        self.last = max(self.last, start if stream.store else done)
        return done

    cdef double _level_two(self, int number, Stream *stream, int64_t line, double *t, int cause,
                           int by) noexcept nogil:
        """When a line that level 1 lacks is there; t becomes when it had its entry."""
        cdef int64_t at = line - stream.low
        cdef double done
        if self._in_far(number, stream, at):
            done = max(t[0] + self.latency[1], stream.far[at])
            if self.prefetchers_count:
                self._train(2, number, stream, line, False, by, t[0])
            return done
        t[0] = self._entry(1, cause, t[0])
        done = t[0] + self._below(number, stream, line, t[0])
        self._keep(1, cause, done)
        self._put_far(stream, at, done)
        if self.prefetchers_count:
            self._train(2, number, stream, line, True, by, t[0])
        return done

    cdef double _below(self, int number, Stream *stream, int64_t line, double t) noexcept nogil:
        """Cycles that a line takes from below level 2."""
        cdef int64_t at = line - stream.low
        cdef double drawn
        cdef int k
        if 0 <= at < stream.count and stream.third[at] != ABSENT:
            return max(self.latency[2], stream.third[at] - t)
        drawn = _drawn(number, <uint64_t>line)
        for k in range(stream.sources):
            if drawn <= stream.part[k]:
                return stream.latency[k] * self.factor
        return stream.latency[stream.sources - 1] * self.factor

    # -- pages -------------------------------------------------------------------------------------------------------

    cdef inline int64_t _small_page(self, int number, Stream *stream, int64_t line) noexcept nogil:
        """The 4 KiB page of a line."""
        if stream.pattern != IRREGULAR:
            return self._key(number, _floor_div(line, SMALL_PAGE_LINES))
        return self._key(number, 0 if stream.one_page else line)

    cdef inline int64_t _key(self, int number, int64_t page) noexcept nogil:
        return ((<int64_t>number + 1) << 40) + page

    cdef inline int64_t _page(self, int number, Stream *stream, int64_t line) noexcept nogil:
        if stream.pattern != IRREGULAR:
            return _floor_div(line, stream.page_lines)
        return <int64_t>(_mixed(number + 1013, <uint64_t>line) % <uint64_t>stream.pages)

    cdef int _tlb_entry(self, int64_t key) noexcept nogil:
        cdef int k
        for k in range(self.tlb_entries):
            if self.tlb_keys[k] == key:
                return k
        return -1

    cdef int _misses(self, int number, Stream *stream, int64_t line, bint use) noexcept nogil:
        """How many levels of TLBs lack a line's page, 0 to 2; with `use` it is in both of them then."""
        cdef int64_t page, where
        cdef int k, oldest, missed
        if not self.tlb_entries:
            return 0
        page = self._page(number, stream, line)
        self.stamp += use
        k = self._tlb_entry(self._key(number, page))
        if k >= 0:
            if use:
                self.tlb_stamps[k] = self.stamp
            return 0
        where = (_floor_div(stream.low, stream.page_lines) * -1 + page) if stream.pattern != IRREGULAR else (
            line - stream.low)
        missed = 2
        if self.second_tlb:
            if stream.seen[where]:
                missed += -1 if not self._forgotten(
                    self.walked - stream.seen[where], self.second_entries, number, page) else 0
            elif _drawn(number + 31, <uint64_t>page) < stream.in_second_tlb:
                missed = 1
        if use:
            self.walked += missed > 1
            stream.seen[where] = self.walked + 1
            oldest = 0
            for k in range(1, self.tlb_entries):
                if self.tlb_stamps[k] < self.tlb_stamps[oldest]:
                    oldest = k
            self.tlb_keys[oldest] = self._key(number, page)
            self.tlb_stamps[oldest] = self.stamp
        return missed

    cdef double _translated(self, int number, Stream *stream, int64_t line, double t) noexcept nogil:
        cdef int missed = self._misses(number, stream, line, True)
        cdef double cost
        if not missed:
            return t
        if missed == 1:
            return t + self.tlb_near
        cost = self.tlb_far if self.second_tlb else self.tlb_near
        t = _when(&self.walkers, t) + cost
        _hold(&self.walkers, t)
        return t

    # -- prefetches --------------------------------------------------------------------------------------------------

    cdef void _prefetches(self, int64_t i, int64_t distance, int fills) noexcept nogil:
        cdef int number, step
        cdef int64_t line, end, due
        cdef Stream *stream
        for number in range(self.streams_count):
            stream = &self.streams[number]
            if not stream.prefetched:
                continue
            for step in range(stream.steps):
                due = i + distance - step * self.furthest
                line, end = self._first_line(stream, due, step), self._end_line(stream, due, step)
                while line < end:
                    self._prefetch(number, stream, line, fills)
                    line += stream.step_lines

    cdef void _prefetch(self, int number, Stream *stream, int64_t line, int fills) noexcept nogil:
        cdef int64_t at = line - stream.low
        cdef double t, start, done
        cdef int missed, level = 0 if fills == 1 else 1
        if not self.across and self._small_page(number, stream, line) != self.latest:
            return
        missed = self._misses(number, stream, line, False)
        if (missed and self.dropped_at_first) or (missed > 1 and self.dropped_at_second):
            return
        t = self._translated(number, stream, line, self.clock)
        if self._in_near(number, stream, at) or (fills > 1 and self._in_far(number, stream, at)):
            return
        start = t
        if fills == 3:
            if stream.third[at] == ABSENT:
                stream.third[at] = t + self._below(number, stream, line, t)
            return
        if self.drops and self._entry(level, SOFTWARE, t) > t:
            return
        if fills == 1:
            start = self._entry(0, SOFTWARE, t)
            done = self._level_two(number, stream, line, &start, SOFTWARE, BY_PREFETCH)
            self._keep(0, SOFTWARE, done)
            self._put_near(stream, at, done)
            if self.prefetchers_count:
                self._train(1, number, stream, line, True, BY_PREFETCH, start)
        else:
            done = self._level_two(number, stream, line, &start, SOFTWARE, BY_PREFETCH)
        self.last = max(self.last, start)
        if self.in_order:
            self.clock = max(self.clock, start)
        if self.stalls_prefetches:
            self.clock = max(self.clock, done)

    # -- hardware prefetchers ----------------------------------------------------------------------------------------

    cdef void _train(self, int level, int number, Stream *stream, int64_t line, bint missed, int by,
                     double t) noexcept nogil:
        cdef int index
        cdef Prefetcher *each
        for index in range(self.prefetchers_count):
            each = &self.prefetchers[index]
            if each.level != level or not each.causes & by:
                continue
            if each.kind <= NEIGHBOUR_NEXT:
                if missed:
                    self._neighbour(each, number, stream, line, t)
            elif stream.pattern == IRREGULAR:
                # a page that nobody comes back to takes a place in tables of pages all the same
                each.allocated += missed and (each.kind == BY_STREAM or each.by_page)
            elif each.kind == BY_STRIDE:
                self._by_stride(index, each, number, stream, line, t)
            else:
                self._by_stream(index, each, number, stream, line, missed, t)

    cdef void _neighbour(self, Prefetcher *each, int number, Stream *stream, int64_t line, double t) noexcept nogil:
        cdef int64_t target
        if stream.pattern != CONTIGUOUS:
            self._fetch(each, number, stream, -1, t)  # a line that nobody will use
            return
        target = (line ^ 1) if each.kind == NEIGHBOUR_PAIR else line + 1
        if _floor_div(target, SMALL_PAGE_LINES) == _floor_div(line, SMALL_PAGE_LINES):
            self._fetch(each, number, stream, target - stream.low, t)

    cdef void _by_stride(self, int index, Prefetcher *each, int number, Stream *stream, int64_t line,
                         double t) noexcept nogil:
        cdef int64_t ahead, where = index
        cdef int k
        if stream.step_lines > each.most_step:
            return
        if each.by_page:  # what was learned of one page is not known in the next
            where += self.prefetchers_count * (
                _floor_div(line, SMALL_PAGE_LINES) - _floor_div(stream.low, SMALL_PAGE_LINES))
        self._displaced(each, stream, where)
        stream.watched[where] += 1
        if stream.watched[where] < each.trigger:
            return
        for k in range(1, each.reach + 1):
            ahead = line + k * stream.step_lines
            if each.crosses or _floor_div(ahead, SMALL_PAGE_LINES) == _floor_div(line, SMALL_PAGE_LINES):
                self._fetch(each, number, stream, ahead - stream.low, t)

    cdef void _displaced(self, Prefetcher *each, Stream *stream, int64_t where) noexcept nogil:
        """Forget what was learned of a page if as many others came since as the table has places (LRU)."""
        if each.allocated - stream.trained[where] >= each.streams:
            stream.watched[where] = 0
            stream.following[where] = 0
        stream.trained[where] = each.allocated

    cdef void _by_stream(self, int index, Prefetcher *each, int number, Stream *stream, int64_t line, bint missed,
                         double t) noexcept nogil:
        """Batches of `degree` lines up to `reach` ahead, in a page where enough accesses missed."""
        cdef int64_t page = _floor_div(line, SMALL_PAGE_LINES)
        cdef int64_t where = (page - _floor_div(stream.low, SMALL_PAGE_LINES)) * self.prefetchers_count + index
        cdef int64_t following  # relative to the lowest line, 0 for none
        cdef int64_t at = line - stream.low, k, end
        cdef int needed
        self._displaced(each, stream, where)
        following = stream.following[where]
        if following == 0 or at >= following:
            if not missed:
                return
            stream.watched[where] += 1
            needed = each.trigger
            if each.edge_trigger and line == page * SMALL_PAGE_LINES:
                needed = each.edge_trigger
            if stream.watched[where] < needed:
                return
            following = at + 1
        if following - at >= each.reach:
            stream.following[where] = following
            return
        end = following + each.degree
        stream.following[where] = end
        if each.crosses:
            stream.following[where + self.prefetchers_count] = end
        for k in range(following, end):
            if each.crosses or _floor_div(k + stream.low, SMALL_PAGE_LINES) == page:
                self._fetch(each, number, stream, k, t)

    cdef void _fetch(self, Prefetcher *each, int number, Stream *stream, int64_t at, double t) noexcept nogil:
        """Bring a line that hardware asks for, where entries are free; -1 for one that nobody will use."""
        cdef bint own = 0 <= at < stream.count
        cdef double done
        if own and self._in_near(number, stream, at):
            return
        if each.fills == 1 and self._entry(0, HARDWARE, t) > t:
            return
        if own and self._in_far(number, stream, at):
            if each.fills > 1:
                return
            done = max(t + self.latency[1], stream.far[at])
        else:
            if each.fills < 3 and self._entry(1, HARDWARE, t) > t:
                return
            done = t + self._below(number, stream, at + stream.low if own else -1 - <int64_t>self.stamp, t)
            if each.fills == 3:
                if own and stream.third[at] == ABSENT:
                    stream.third[at] = done
                return
            self._keep(1, HARDWARE, done)
            if not own:
                self.filled[1] += 1
            else:
                self._put_far(stream, at, done)
                if each.level == 1:
                    self._train(2, number, stream, at + stream.low, True, BY_L1_PREFETCHER, t)
        if each.fills == 1:
            self._keep(0, HARDWARE, done)
            if own:
                self._put_near(stream, at, done)
            else:
                self.filled[0] += 1
