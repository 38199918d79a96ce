"""Measurement procedures that several scenarios share: they run probes on a machine and return samples."""
