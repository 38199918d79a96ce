"""Which of many nodes is odd: variance components, robust centres, and corrections for many comparisons."""
