"""This CPU's events for the native machine: pinned groups, roles counted around probes, and counters that are free."""
