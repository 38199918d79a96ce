"""Findings as configuration for other tools: compilers, libraries, simulators, topology tools.

One module of `formats/` is one format: it has a `FORMAT`, and nothing else registers it. A value that a result does
not settle is left out and named; what a format needs and nobody measured is marked as assumed.
"""

from setebench.export.format import Format as Format
from setebench.export.registry import export as export
from setebench.export.registry import formats as formats
from setebench.export.source import Source as Source
from setebench.export.values import Open as Open
from setebench.export.values import Origin as Origin
from setebench.export.values import Value as Value
