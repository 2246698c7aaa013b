"""The commands there are, and the lines of the recorded sessions that run each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

HOME = Path(__file__).parent / "cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A line of a session, and what follows it."""

    line: str
    printed: list[str]  # `1|`, `2|` and `exit` lines

    @property
    def is_fine(self) -> bool:
        """Whether it ended with exit code 0."""
        return not any(line.startswith("exit ") for line in self.printed)

    @property
    def is_help(self) -> bool:
        return self.line.partition("  # ")[0].endswith((" --help", " -h"))

    @property
    def manner(self) -> str:
        return self.line.partition("  # ")[2]


def commands() -> dict[str, click.Command]:
    """All that are no groups, by name: `topic list`."""
    from kbroker.cli.command_line import cli

    return dict(_below(cli, ""))


def _below(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from _below(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def recorded() -> list[Recorded]:
    """All lines that run a command, in their order."""
    found: list[Recorded] = []
    for path in sorted(HOME.glob("*.txt")):
        for line in path.read_text().splitlines():
            if line.startswith("$ "):
                found.append(Recorded(line=line, printed=[]))
            elif re.match(r"[12]\||exit ", line):
                found[-1].printed.append(line)
    return found


def recorded_of(name: str) -> list[Recorded]:
    """Those that run one command."""
    runs = re.compile(rf"\bkbroker {name}(?: |$)")
    return [each for each in recorded() if runs.search(each.line)]
