"""Probes around software prefetches and misses: what they bring where, and what they hold up. Ticks in, no findings."""
