"""Kinds of prefetchers: how each is looked for, and what is asked of one that is there."""
