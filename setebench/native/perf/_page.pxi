# The page that the kernel keeps about an open event, and the ring buffer behind it.


cdef class Page:
    """See `kernel.EventPage`. Not inherited by forked children: there it raises `PerfError`."""

    cdef perf_event_mmap_page *page
    cdef size_t mapped_bytes
    cdef uint64_t data_bytes
    cdef uint64_t generation
    cdef pthread_t owner
    cdef bint own
    cdef object memory              # instead of a mapping; a view, so that it keeps its place
    cdef uint64_t numbers[MOST_EVENTS]
    cdef bint simulated

    def __cinit__(self):
        self.page = NULL
        self.mapped_bytes = 0
        self.data_bytes = 0
        self.simulated = False

    def __init__(self, int fd, int data_pages=0, bint own=False):
        """Map it. Raises `PerfError` (EPERM where locked memory is used up, EINVAL for pages not a power of two)."""
        cdef size_t size = <size_t>(1 + data_pages) * PAGE
        cdef void *mapped
        if data_pages < 0 or data_pages & (data_pages - 1):
            raise PerfError(EINVAL)
        mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        if mapped == MAP_FAILED:
            raise PerfError(errno)
        self.page = <perf_event_mmap_page *>mapped
        self.mapped_bytes = size
        self.data_bytes = <uint64_t>data_pages * PAGE
        self._owned(own)

    cdef void _owned(self, bint own):
        self.generation = setebench_generation
        self.owner = pthread_self()
        self.own = own

    @staticmethod
    def of_memory(bytearray memory, counters=()):
        """A page of plain memory (at least one page long; a ring buffer behind it) with these numbers for hardware
        counters, of the calling thread: what the kernel may say where its counters can't be had."""
        cdef Page page = Page.__new__(Page)
        if len(memory) < PAGE or len(counters) > MOST_EVENTS:
            raise PerfError(EINVAL)
        page.memory = memoryview(memory)
        page.page = <perf_event_mmap_page *><char *>memory
        page.data_bytes = len(memory) - PAGE
        page.simulated = True
        for i, number in enumerate(counters):
            page.numbers[i] = number
        page._owned(True)
        return page

    def __dealloc__(self):
        self.close()

    def close(self):
        """See `EventPage.close`."""
        if self.mapped_bytes and self.generation == setebench_generation:
            munmap(self.page, self.mapped_bytes)
        self.mapped_bytes = 0
        self.page = NULL

    cdef int _open(self) except -1:
        if self.page == NULL or self.generation != setebench_generation:
            raise PerfError(EINVAL)
        return 0

    @property
    def capabilities(self):
        """See `EventPage.capabilities`."""
        self._open()
        return self.page.capabilities

    @property
    def index(self):
        """See `EventPage.index`."""
        self._open()
        return self.page.index

    @property
    def can_rdpmc(self):
        """See `EventPage.can_rdpmc`."""
        return self.count() is not None

    def count(self):
        """See `EventPage.count`."""
        cdef int64_t value
        self._open()
        # a counter index is that of the CPU on which the event's thread runs: no other thread may use it
        if not self.own or self.owner != pthread_self():
            return None
        if self.simulated and self.page.index > MOST_EVENTS:
            raise PerfError(EINVAL)
        if setebench_page_count(self.page, self.numbers if self.simulated else NULL, &value):
            return value
        return None

    def drain(self):
        """See `EventPage.drain`."""
        cdef list records = []
        cdef uint64_t head, tail
        cdef uint16_t size
        self._open()
        if not self.data_bytes:
            return records
        head = setebench_data_head(self.page)
        tail = self.page.data_tail
        while tail + HEADER <= head:
            # a record begins at a multiple of 8, so its header is never split
            memcpy(&size, self._data() + tail % self.data_bytes + 6, 2)
            if size < HEADER or tail + size > head:
                break
            records.append(self._bytes(tail, size))
            tail += size
        setebench_data_tail(self.page, tail)
        return records

    cdef char *_data(self):
        return <char *>self.page + PAGE

    cdef bytes _bytes(self, uint64_t tail, uint16_t size):
        """A record, in one piece even where it goes on at the buffer's begin."""
        cdef uint64_t begin = tail % self.data_bytes
        cdef uint64_t first = min(<uint64_t>size, self.data_bytes - begin)
        cdef bytes record = PyBytes_FromStringAndSize(NULL, size)
        memcpy(PyBytes_AsString(record), self._data() + begin, first)
        memcpy(PyBytes_AsString(record) + first, self._data(), size - first)
        return record


def map_page(int fd, int data_pages=0, bint own=False):
    """See `Kernel.map_page`."""
    return Page(fd, data_pages, own)


if setebench_watch_forks():
    raise MemoryError("forked children can't be noticed")
