"""Samples of events: records of the kernel's ring buffers made readable, and the buffers themselves.

`records` takes bytes apart, `data_source` says where a load was served, `buffers` opens sampled events, `loads`
those that sample loads precisely.
"""

from __future__ import annotations

from setebench.native.perf.sampling.buffers import Sampler
from setebench.native.perf.sampling.data_source import DataSource, decode_data_source
from setebench.native.perf.sampling.kinds import (
    Ended,
    Lost,
    Mapped,
    Other,
    Record,
    Renamed,
    SampleRecord,
    Started,
    ThreadCount,
    Throttled,
)
from setebench.native.perf.sampling.loads import LoadEvent, LoadSampler, for_program, load_event
from setebench.native.perf.sampling.records import parse_record

__all__ = [
    "DataSource",
    "Ended",
    "LoadEvent",
    "LoadSampler",
    "Lost",
    "Mapped",
    "Other",
    "Record",
    "Renamed",
    "SampleRecord",
    "Sampler",
    "Started",
    "ThreadCount",
    "Throttled",
    "decode_data_source",
    "for_program",
    "load_event",
    "parse_record",
]
