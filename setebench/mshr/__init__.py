"""How many misses are in flight at once: what is asked of a machine, by loads, stores, prefetches and threads."""
