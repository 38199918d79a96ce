"""setebench: short elapsed-time events for memory systems."""
