"""What rates of many accesses say: what rounds reached, and whether a memory was saturated."""
