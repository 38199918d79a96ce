"""Bandwidth measurements: streaming kernels (such as copy and triad) on one or several CPUs at once, in rounds."""
