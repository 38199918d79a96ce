"""Formats, a module each with a `FORMAT`. The module's docstring says the target's unit and rounding of every value,
and where its names were looked up."""
