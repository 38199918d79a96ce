"""Here so that pytest puts this folder, with what tests share, on the import path."""

import signal

import pytest
from hypothesis import settings
from scenario_files import no_scenarios, scenario_folder

__all__ = ["no_scenarios", "scenario_folder"]  # fixtures

# A neighbour on the same CPU must not fail a test, so no example has a time limit. The examples are the same
# everywhere, so that no unlucky draw fails another program's change; `--hypothesis-profile=explore` draws new ones.
settings.register_profile("setebench", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("setebench")


def pytest_configure(config: pytest.Config) -> None:
    """Workers are dealt files in the order that the hook below makes, not those of many tests first."""
    config.addinivalue_line("markers", "long(seconds): about how long a file takes; only the order of files matters")
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest come first, or one worker would be left with them at the end."""
    items.sort(key=_seconds, reverse=True)


def _seconds(item: pytest.Item) -> int:
    marker = item.get_closest_marker("long")
    return marker.args[0] if marker else 0


@pytest.fixture(scope="session", autouse=True)
def honouring_interrupts() -> None:
    """A shell without job control has what it starts in the background ignore SIGINT, and that is inherited: programs
    that tests start and interrupt would go on."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
