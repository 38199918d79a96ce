"""Formats, a module each with a `FORMAT`, and two that share one. The module's docstring says the target's unit and
rounding of every value, and where its names were looked up."""

from setebench.export.format import Format
from setebench.export.formats import (
    blas,
    c_header,
    champsim,
    gcc,
    gem5,
    glibc,
    hwloc,
    kerncraft,
    llvm,
    mt4g,
    sniper,
    sys_sage,
)

MODULES = (c_header, champsim, gcc, gem5, glibc, hwloc, kerncraft, llvm, mt4g, sniper, sys_sage)
FORMATS: dict[str, Format] = {
    each.name: each
    for each in sorted((*(module.FORMAT for module in MODULES), *blas.FORMATS), key=lambda each: each.name)
}
"""All formats by name, sorted."""
