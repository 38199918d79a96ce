"""Opening and counting events on this kernel, for the tests of counting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from setebench.native.perf import _perf
from setebench.native.perf._perf import Reading
from setebench.native.perf.attributes import Attributes, Flag, Software, Type
from setebench.native.perf.messages import Request, explain, read_situation

PAGES = 200
PAGE = 4096


def opened(attributes: Attributes, *rest: int) -> int:
    """A descriptor; a test that needs an event that this kernel refuses is left out, with the reason."""
    try:
        return _perf.open_event(attributes, *rest)
    except OSError as error:
        pytest.skip(explain(error.errno or 0, Request(attributes=attributes), read_situation()))


@contextmanager
def counted(*events: Attributes) -> Iterator[Callable[[], Reading]]:
    """A group that counts within; what it gives says what it counted so far."""
    leader = opened(events[0].with_flags(Flag.DISABLED | Flag.PINNED))
    fds = [leader]
    try:
        fds += [opened(event, 0, -1, leader) for event in events[1:]]
        _perf.switch(leader, True, group=True)
        yield lambda: reading_of(leader, len(events))
    finally:
        for fd in reversed(fds):
            os.close(fd)


def reading_of(leader: int, count: int) -> Reading:
    reading = _perf.read_values(leader, count)
    if reading is None:
        pytest.skip("no counter is free: other programs use them")
    return reading


def software(event: Software, *, user_only: bool = True) -> Attributes:
    return Attributes(type=Type.SOFTWARE, config=event, flags=Flag.EXCLUDE_KERNEL * user_only)
