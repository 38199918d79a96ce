"""What every table of a machine file has in common, and what its fields may be."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Size = Annotated[int, Meta(ge=1, le=1024)]  # of a table or a queue, or a distance in lines
Lines = Annotated[int, Meta(ge=1, le=16)]  # or accesses, of one step of a prefetcher
WhenFull = Literal["stalls", "drops"]


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Common settings of all tables: immutable, fields by name, an unknown field is an error. Defaults are left out of
    what is sent, so that another version's inference reads a machine whose fields that it lacks say nothing."""


def between(low: float, high: float, meaning: str) -> Meta:
    """A number in a range, and what it says."""
    return Meta(ge=low, le=high, description=meaning)


def says(meaning: str) -> Meta:
    """What a field says that its type alone limits."""
    return Meta(description=meaning)


def several(least: int, most: int, meaning: str) -> Meta:
    """A list of so many elements, or a dictionary of so many keys, and what it says."""
    return Meta(min_length=least, max_length=most, description=meaning)


def words(least: int, most: int, meaning: str) -> Meta:
    """Printable text of so many characters, and what it says."""
    printable = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\ufeff]*$"
    return Meta(min_length=least, max_length=most, pattern=printable, description=meaning)
