"""Scenarios: each module or package here asks one question; its `SCENARIO` object makes it a command."""
