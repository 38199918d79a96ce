"""Functions of the kernel run by Python itself: the same source as the compiled ones, for a few thousand calls.

A truth that no closed form gives is found by running a prefetcher's own rule; that must not wait for the compiler.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from numba.core.dispatcher import Dispatcher

_made: dict[Any, Callable[..., Any]] = {}


def interpreted(function: Any) -> Callable[..., Any]:
    """The plain Python function behind a compiled one, which calls plain ones in turn."""
    if function not in _made:
        source = function.py_func
        names: dict[str, Any] = {"__builtins__": __builtins__}
        plain = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__)
        _made[function] = plain
        for name in source.__code__.co_names:
            if name in source.__globals__:
                names[name] = _plain(source.__globals__[name])
    return _made[function]


def _plain(value: Any) -> Any:
    return interpreted(value) if isinstance(value, Dispatcher) else value
