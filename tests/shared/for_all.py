"""One test over many cases of one kind, where a test of its own for each would take longer to collect than to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def for_all(cases: Mapping[str, tuple[Any, ...]]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """The first case that fails ends the test, and is named."""

    def decorated(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            assert cases
            for name, case in cases.items():
                try:
                    check(*case)
                except Exception as error:
                    error.add_note(f"in the case {name}")
                    raise

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorated
