"""What the levels of a memory hierarchy are: geometry of caches and TLBs, page faults, and what other cores add."""
