"""Statistics that every question shares: plain arrays in, plain records out. Knows no machine and no parameter.

Each module gives the source of its method. `decide` is the place that makes a finding of an estimate.
"""
