"""Inference from raw ticks: the clock's step, unbiased means, and the share of loads that each cache level served."""
