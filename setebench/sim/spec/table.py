"""What every table of a machine file has in common."""

from __future__ import annotations

import msgspec


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Common settings of all tables: immutable, fields by name, an unknown field is an error."""
