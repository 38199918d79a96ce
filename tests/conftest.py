"""Here so that pytest puts this folder, with what tests share, on the import path."""

import signal

import pytest
from hypothesis import settings

# A neighbour on the same CPU must not fail a test, so no example has a time limit. The examples are the same
# everywhere, so that no unlucky draw fails somebody else's change; `--hypothesis-profile=explore` draws new ones.
settings.register_profile("setebench", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("setebench")


@pytest.fixture(scope="session", autouse=True)
def heeding_interrupts() -> None:
    """A shell without job control has what it starts in the background ignore SIGINT, and that is inherited: programs
    that tests start and interrupt would go on."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
