"""Regions that Python code marks: `begin` and `end` of one by its name, on the calling thread (see `setebench.h`)."""

from setebench.native.perf.program._regions import begin, end

__all__ = ["begin", "end"]
