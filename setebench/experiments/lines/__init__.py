"""Lines that are laid out, brought to a level, and timed there."""
