"""Here so that pytest puts this folder, with what tests share, on the import path."""

from hypothesis import settings

# a neighbour on the same CPU must not fail a test, so no example has a time limit
settings.register_profile("setebench", deadline=None)
settings.load_profile("setebench")
