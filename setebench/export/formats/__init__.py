"""Formats, in modules of what is alike, each with its `FORMATS`. The docstring of a format's rows says the target's
unit and rounding of every value, and where its names were looked up."""

from setebench.export.format import Format
from setebench.export.formats import blas, compilers, kerncraft, simulators, topologies

MODULES = (blas, compilers, kerncraft, simulators, topologies)
FORMATS: dict[str, Format] = {
    each.name: each for each in sorted((each for m in MODULES for each in m.FORMATS), key=lambda each: each.name)
}
"""All formats by name, sorted."""
