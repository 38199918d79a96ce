"""Counting a program, a process or a thread from outside, and regions that a program marks.

`wanted` makes events of names, `opened` opens them for threads and reads them, `start` starts a program so that
nothing of it goes uncounted, `watch` waits for the end of a program, `region_file` shares memory with the regions
that it marks, `run` puts all this together.
"""
