"""The kernel's interface to performance counters: the only place that opens events.

Above it stand roles (`setebench.counters`); here are events, descriptors, pages and errno. What the kernel does is
behind one small object (`kernel.Kernel`), so that a fake kernel can take every branch that this computer can't.
"""
