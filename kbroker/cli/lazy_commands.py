"""Groups of commands that suggest near names for a wrong one, and can import their subcommands when
these are called, so that help and completion do not pay for the imports.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kbroker.near_names import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Names of shells for commands whose names here do not look like them.
_OTHER_NAMES = {"rm": "delete", "remove": "delete", "ls": "list"}
_LINE = 80  # characters of a help text in a list


class LazyCommand(NamedTuple):
    """The place of a subcommand, and its line in the help of its group."""

    module: str
    attribute: str
    help: str


class CommandGroup(click.Group):
    """A group that suggests commands for an unknown name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a subcommand; an unknown name is refused with near ones."""
        name = args[0]
        is_option = name.startswith("-")
        known = self.list_commands(ctx)
        if name not in known and not is_option and not ctx.resilient_parsing:
            meant = _OTHER_NAMES.get(name)
            near = known if meant is None else [each for each in known if each == meant]
            ctx.fail(f"no such command: {name}{did_you_mean(meant or name, near)}")
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """A group with a table of subcommands, `commands_by_name`, in the order of the help; sorted by
    name if others were added.
    """

    def __init__(
        self, *args: Any, commands_by_name: Mapping[str, LazyCommand] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._table = dict(commands_by_name or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        added = super().list_commands(ctx)
        return sorted([*added, *self._table]) if added else list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand, imported now if the table has it."""
        if cmd_name not in self._table:
            return super().get_command(ctx, cmd_name)
        place = self._table[cmd_name]
        command: click.Command = getattr(importlib.import_module(place.module), place.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands, which imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(self._lines(ctx))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return subcommands with their lines in the help, then options."""
        from click.shell_completion import CompletionItem  # only shells need it

        commands = [
            CompletionItem(name, help=line)
            for name, line in self._lines(ctx)
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def _lines(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, self._line_of(name)) for name in self.list_commands(ctx)]

    def _line_of(self, name: str) -> str:
        if name in self._table:
            return self._table[name].help
        return self.commands[name].get_short_help_str(_LINE)
