# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The part of setebench that touches hardware: stitching probes from snippets, running them, reading the clock.

Everything here is called by `setebench.native`; nothing else imports it. One extension in several files: C declarations
in `_engine.pxd`, and the parts included below, each of which uses those before it.
"""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, strerror

import numpy as np

from setebench.errors import NO_MACHINE_CODE, ProbeError, UnsupportedError
from setebench.kernels import KERNELS as STREAM_KERNELS, array_spacing, round_bytes
from setebench.probe import Kind

include "_snippets.pxi"
include "_operands.pxi"
include "_writing.pxi"
include "_running.pxi"
include "_clock.pxi"
