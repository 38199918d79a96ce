"""A machine and its twin, held against each other on random probes that nobody chose.

`families` draw trials by a seed; `runner` runs them on any machine and answers in cycles; `check` says on which the
twin differs, `document` how often, beside the machine with itself.
"""
