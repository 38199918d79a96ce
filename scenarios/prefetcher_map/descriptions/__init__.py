"""What prefetchers of no family do, described: which lines come after which accesses."""
