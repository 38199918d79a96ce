"""A complete machine file from a result: every field measured, bounded or assumed, and why.

What was found is turned into fields by the rules of `core`, `caches` and `prefetchers`. Every other field that the
schema has is assumed, at its default, so that a field which the schema gains shows up by itself.
"""

from setebench.truth.twin.make import Twin as Twin
from setebench.truth.twin.make import as_toml as as_toml
from setebench.truth.twin.make import fields_of as fields_of
from setebench.truth.twin.make import make_twin as make_twin
from setebench.truth.twin.make import said as said
from setebench.truth.twin.make import twin_of_file as twin_of_file
