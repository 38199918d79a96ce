"""What rates of many accesses say: the peak that rounds reached, and whether a memory was saturated."""
