"""Kafka's tools as tables of the options that are served, and the reader of their command lines.

Law: an option that is not in the table is refused by its name, because the script that gives it
relies on it; so is one that does not belong to the action. A deletion that ignored an option that
narrows it would delete more than it should.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kbroker.client.bootstrap import Bootstrap
from kbroker.near_names import did_you_mean

_WIDTH = 100
_COLUMN = 34  # where the descriptions begin


class ToolError(Exception):
    """A tool cannot do what it was asked to; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a tool. `help` is a line for people; `value` names the value that follows, None:
    none does. With a `default`, the value may be left out. `of`: its actions, none: all.
    """

    help: str
    value: str | None = None
    default: str | None = None
    of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """The options of a command line by name, with their values in the order they came."""

    values: Mapping[str, Sequence[str]]
    words: tuple[str, ...] = ()  # beside the options

    def has(self, name: str) -> bool:
        return name in self.values

    def all(self, *names: str) -> list[str]:
        """Return all values of options that mean the same."""
        return [value for name in names for value in self.values.get(name, ())]

    def one(self, *names: str) -> str | None:
        """Return the value of an option that has several names; None if it was not given.

        Raises ToolError if it was given twice.
        """
        found = self.all(*names)
        if len(found) > 1:
            raise ToolError(
                f"Found multiple arguments for option {names[0]}, but you asked for one"
            )
        return found[0] if found else None

    def needed(self, *names: str) -> str:
        """Return the value of an option that must be given. ToolError if it was not."""
        found = self.one(*names)
        if found is None:
            raise ToolError(f'Missing required argument "[{names[0]}]"')
        return found

    def number(self, name: str) -> int | None:
        """Return the value of an option that is a number, or None."""
        found = self.one(name)
        try:
            return None if found is None else int(found)
        except ValueError as error:
            raise ToolError(f"Cannot parse argument '{found}' of option {name}") from error

    def action(self, *names: str) -> str:
        """Return which one of these was given. ToolError if it was none, or more."""
        given = [name for name in names if name in self.values]
        if len(given) != 1:
            *others, last = (f"--{name}" for name in names)
            raise ToolError(
                f"Command must include exactly one action: {', '.join(others)} or {last}"
            )
        return given[0]

    def at_most_one(self, *names: str) -> str | None:
        """Return which one of these was given; None if none was. ToolError if several were."""
        given = [name for name in names if name in self.values]
        if len(given) > 1:
            raise ToolError(f"Only one of {', '.join(f'--{name}' for name in given)} can be given")
        return given[0] if given else None

    def address(self) -> str:
        """Return the address of the cluster. ToolError if it was not given."""
        found = self.one("bootstrap-server", "broker-list")
        if not found:
            raise ToolError("--bootstrap-server must be specified")
        return found

    def bootstrap(
        self, *files: str, properties: Mapping[str, str] = MappingProxyType({})
    ) -> Bootstrap:
        """Return the cluster; `files`: other options that may name a client's properties file."""
        from kbroker.cli.arguments.bootstrap_reading import named_bootstrap

        return named_bootstrap(self.address(), self.one("command-config", *files), properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool. `run` returns the exit code, and may raise ToolError. `takes`: the arguments beside
    the options; `short`: options by their one letter.
    """

    summary: str
    options: Mapping[str, Option]
    run: Callable[[Given], int]
    takes: str | None = None
    short: Mapping[str, str] = field(default_factory=dict)


BOOTSTRAP = {
    "bootstrap-server": Option("Address of a broker.", "HOST:PORT"),
    "command-config": Option("Properties of a client, for TLS and logins.", "FILE"),
}
HELP = {
    "help": Option("Print this."),
    "version": Option("Print the version."),
}


def read(tool: Tool, arguments: Sequence[str]) -> Given:
    """Read a command line. ToolError for an option that is not in the table, or that belongs to
    another action.
    """
    known = {**tool.options, **HELP}
    values: dict[str, list[str]] = {}
    words = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in tool.short:
            word = f"--{tool.short[word]}"
        if not word.startswith("-"):
            if tool.takes is None:
                raise ToolError(f"'{word}' is not an option, and nothing else is taken here")
            words.append(word)
            continue
        name, sign, value = word.removeprefix("--").partition("=")
        if name not in known:
            dashes = "" if name.startswith("-") else "--"
            hint = did_you_mean(f"--{name}", [f"--{each}" for each in known])
            raise ToolError(f"{dashes}{name} is not served here{hint}")
        values.setdefault(name, []).extend(
            _values(name, known[name], value if sign else None, rest)
        )
    if "help" not in values:
        _check_actions(known, values)
    return Given(values, tuple(words))


def _check_actions(known: Mapping[str, Option], values: Mapping[str, object]) -> None:
    for name in values:
        actions = known[name].of
        if actions and not any(action in values for action in actions):
            others = " and ".join(f"--{action}" for action in actions)
            raise ToolError(f"--{name} is for {others} only")


def _values(name: str, option: Option, value: str | None, rest: list[str]) -> list[str]:
    """Return the value of an option, which may be the next of the `rest`; none if it takes none."""
    if option.value is None:
        if value is not None:
            raise ToolError(f"--{name} takes no value")
        return []
    if value is not None:
        return [value]
    if option.default is not None and (not rest or rest[0].startswith("--")):
        return [option.default]
    if not rest:
        raise ToolError(f"Option {name} requires an argument")
    return [rest.pop(0)]


def help_text(name: str, tool: Tool) -> str:
    """Return the text that `--help` prints."""
    takes = "" if tool.takes is None else f" {tool.takes}"
    lines = [f"kafka-{name}{takes} [OPTION]...", "", f"It {tool.summary} Options that are served:"]
    for option_name, option in sorted({**tool.options, **HELP}.items()):
        words = f"  --{option_name}"
        if option.value is not None:
            words += f" [{option.value}]" if option.default is not None else f" {option.value}"
        gap = words.ljust(_COLUMN) if len(words) < _COLUMN else f"{words}\n{' ' * _COLUMN}"
        described = textwrap.wrap(option.help, _WIDTH - _COLUMN)
        lines.append(gap + f"\n{' ' * _COLUMN}".join(described))
    return "\n".join(lines)


def pattern_of(option: str, text: str) -> re.Pattern[str]:
    """Compile a pattern of whole names, or several with commas. ToolError if it is malformed."""
    try:
        return re.compile(text.replace(",", "|"))
    except re.error as error:
        raise ToolError(f"--{option} '{text}' is not a pattern: {error}") from error


def truth_of(name: str, text: str) -> bool:
    """Return the truth of a property. ToolError if it is neither true nor false."""
    found = {"true": True, "false": False}.get(text.lower())
    if found is None:
        raise ToolError(f"--property {name}={text} is neither true nor false")
    return found


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Return settings from the KEY=VALUE texts of an option; without `=` the value is empty."""
    found = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not key:
            raise ToolError(f"--{option} '{text}' is not KEY=VALUE")
        found[key] = value
    return found
