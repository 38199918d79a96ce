"""Mapping hardware prefetchers: which lines a few accesses bring, asked one line at a time."""
