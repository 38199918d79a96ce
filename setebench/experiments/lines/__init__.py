"""Layout of working sets: which lines of which pages a traversal loads, and in which order."""
