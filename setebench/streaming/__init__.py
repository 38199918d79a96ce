"""Streams on one CPU or several at once: what scenarios of bandwidth share."""
