"""Groups of commands: a wrong name is refused with the near ones, and a group can have subcommands
that are imported when they are called, so that help and completion cost none of their imports.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from kbroker.near_names import did_you_mean


class LazyCommand(NamedTuple):
    """Where a subcommand lives, and its line in the help of its group."""

    module: str
    attribute: str
    help: str


class CommandGroup(click.Group):
    """Says which command may be meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with names near to one that is not known."""
        name = args[0]
        is_option = name.startswith("-")
        known = self.list_commands(ctx)
        if name not in known and not is_option and not ctx.resilient_parsing:
            ctx.fail(f"no such command: {name}{did_you_mean(name, known)}")
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Subcommands from the table, then options."""
        commands = [
            CompletionItem(name, help=place.help)
            for name, place in self._table.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)
