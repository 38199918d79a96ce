"""Formats, in modules of what is alike, each with its `FORMATS`. The docstring of a format's rows says the target's
unit and rounding of every value, and where its names were looked up."""
