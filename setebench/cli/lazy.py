"""A group of commands that are only imported when they are used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyCommands(click.Group):
    """Lists commands without importing them. `commands_at` says where each lives (module:attribute), and its line in
    `--help`."""

    def __init__(self, *arguments: Any, commands_at: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._at:
            return None
        module, _, attribute = self._at[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def lines(self) -> dict[str, dict[str, str]]:
        """Of each section of the help, its commands with their lines."""
        return {"Commands": {name: self._at[name][1] for name in self.list_commands(click.Context(self))}}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, lines in self.lines().items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(list(lines.items()))
