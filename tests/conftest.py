"""Here so that pytest puts this folder, with what tests share, on the import path."""

from hypothesis import settings

# A neighbour on the same CPU must not fail a test, so no example has a time limit. The examples are the same
# everywhere, so that no unlucky draw fails somebody else's change; `--hypothesis-profile=explore` draws new ones.
settings.register_profile("setebench", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("setebench")
