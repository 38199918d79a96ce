"""Reusable ways to put a question to a machine. They return samples and decide nothing."""
