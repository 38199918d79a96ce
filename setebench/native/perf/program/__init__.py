"""Counting a program, a process or a thread from outside, and regions that a program marks."""
