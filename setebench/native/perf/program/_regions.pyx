# cython: language_level=3
"""Regions marked by Python code: the same functions that C programs use, so that both count in one way."""


cdef extern from "setebench.h":
    void setebench_region_begin(const char *) nogil
    void setebench_region_end(const char *) nogil


def begin(str name not None):
    """Count for region `name` from here on, on this thread. Costs next to nothing where nothing is counted."""
    cdef bytes encoded = name.encode(errors="replace")
    setebench_region_begin(encoded)


def end(str name not None):
    """End what this thread began last under this name."""
    cdef bytes encoded = name.encode(errors="replace")
    setebench_region_end(encoded)
