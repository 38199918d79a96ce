"""Scenarios: one file per question. Each module has a `SCENARIO`; nothing registers it."""
