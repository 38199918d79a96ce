"""What limits a program: its cycles by cause, its latencies and traffic, over time and by place, and what to try.

`setebench.diagnose` is this package, and a function as well: `setebench.diagnose(function, ...)` (see `run`).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    """The library's name for diagnosing a function is that of this package, so the package can be called."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        from setebench.diagnose.run import diagnose

        return diagnose(*arguments, **keywords)


sys.modules[__name__].__class__ = _CallableRoom
