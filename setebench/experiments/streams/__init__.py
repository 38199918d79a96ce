"""Streaming kernels on one CPU or several at once: what they run on, what they cost, and their rates round by round."""
