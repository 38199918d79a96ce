"""This package within tools that sites already run. Each module needs its tool, and nothing else imports it."""
