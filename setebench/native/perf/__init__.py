"""The kernel's interface to performance counters: the only place that opens events.

Above it stand roles (`setebench.counters`); here are events, descriptors, pages and errno.
"""
