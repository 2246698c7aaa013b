"""A group whose subcommands are imported when they are called: help costs none of their imports."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class LazyCommand(NamedTuple):
    """Where a subcommand lives, and its line in the help of its group."""

    module: str
    attribute: str
    help: str


class LazyGroup(click.Group):
    """Knows its subcommands by a table, `commands_by_name`, in the order of the help."""

    def __init__(
        self, *args: Any, commands_by_name: Mapping[str, LazyCommand] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._table = dict(commands_by_name or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand, imported now."""
        if cmd_name not in self._table:
            return None
        place = self._table[cmd_name]
        command: click.Command = getattr(importlib.import_module(place.module), place.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of subcommands, from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.help) for name, place in self._table.items()])
