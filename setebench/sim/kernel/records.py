"""Tables of records of which the least recently used one gives way: TLBs, and what prefetchers remember.

A record's first two words are its key plus one (0: empty) and a stamp of when it was used last; the rest, from word 2
on, is the user's own. A table has the keys of all records first, then all stamps, then the rest of each record.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled, equal_words, first_bit, inlined

NUMBER_BITS = 12  # of a record in its table: a TLB may have 4096 ways


@inlined
def record_at(table: int, records: int, words: int, number: int) -> int:
    """Offset of a record, to which its own words' places are added."""
    return table + 2 * records + number * (words - 2) - 2


@inlined
def next_match(s: Ints, table: int, records: int, key: int, begin: int) -> int:
    """Number of the first record from `begin` on with that key, or -1."""
    for at in range(begin, records, lay.HOST_LINE_WORDS):  # what is compared beyond the keys are stamps
        found: int = equal_words(s, table + at, 0, key + 1) & ((1 << min(records - at, lay.HOST_LINE_WORDS)) - 1)
        if found:
            place: int = first_bit(found)
            return at + place
    return -1


@inlined
def use(s: Ints, table: int, records: int, number: int) -> None:
    """Make a record the latest used."""
    s[lay.S_STAMP] += 1
    s[table + records + number] = s[lay.S_STAMP]


@compiled
def find_record(s: Ints, table: int, records: int, words: int, key: int) -> int:
    """Offset of the record with that key, as the latest used, or -1."""
    number = next_match(s, table, records, key, 0)
    if number < 0:
        return -1
    use(s, table, records, number)
    return record_at(table, records, words, number)


@compiled
def oldest_record(s: Ints, table: int, records: int) -> int:
    """Number of the first empty record, or of the one with the oldest stamp; as a minimum, for want of branches."""
    oldest = lay.NEVER
    for number in range(records):
        oldest = min(oldest, (s[table + records + number] << NUMBER_BITS) | number)
    return oldest & ((1 << NUMBER_BITS) - 1)


@compiled
def claim(s: Ints, table: int, records: int, words: int, key: int) -> int:
    """Clear the empty record, or the one with the oldest stamp, and give it the key; returns its offset."""
    number = oldest_record(s, table, records)
    record = record_at(table, records, words, number)
    for k in range(2, words):
        s[record + k] = 0
    s[table + number] = key + 1
    use(s, table, records, number)
    return record


@compiled
def record_for(s: Ints, table: int, records: int, words: int, key: int) -> int:
    """Offset of the record with that key, a new one where there is none, as the latest used."""
    record = find_record(s, table, records, words, key)
    return claim(s, table, records, words, key) if record < 0 else record
