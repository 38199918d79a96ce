"""Time bursts of cache misses, and loads of a single line after a burst, to find limits such as the number of MSHRs."""
