"""Observing a program while it runs: intervals, samples with their places, work by thread, latency beside it."""
