"""Bursts of accesses that no cache has: by one thread, to a level, and by several threads."""
