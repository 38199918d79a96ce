"""Registers that switch prefetchers of this CPU off: which there are, and a guard that puts them back."""
