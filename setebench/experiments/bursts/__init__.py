"""Bursts of accesses that no cache has: by one thread, and by several."""
