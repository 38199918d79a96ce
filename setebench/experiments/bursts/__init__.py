"""Bursts of accesses that no cache has, and one line behind a burst with its controls."""
