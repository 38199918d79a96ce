"""Hardware prefetchers after publications, for which scenarios have no names: a file for each kind.

Tables are directly mapped where the source has them so. SMT threads that don't share one have a table each.
"""
