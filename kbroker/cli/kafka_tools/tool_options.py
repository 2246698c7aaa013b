"""Tools of Kafka as tables of the options that are served, and how a command line is read by such a
table.

Law: an option that is not in the table is refused by its name, because the script that gives it
relies on it; so is one that does not belong to the action. A deletion that ignored what narrows it
would delete more than it was asked to.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kbroker.client.bootstrap import Bootstrap
from kbroker.near_names import did_you_mean

_WIDTH = 100
_COLUMN = 34  # where the descriptions begin


class ToolError(Exception):
    """A tool cannot do what it is asked for; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Option:
    """`help` is a line for people. `value` is the name of what follows; None: nothing does. With a
    `default`, the option may stand without its value. `of`: the actions it belongs to; none: all.
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
        """Whether the option was given."""
        return name in self.values

    def all(self, *names: str) -> list[str]:
        """All values of options that mean the same."""
        return [value for name in names for value in self.values.get(name, ())]

    def one(self, *names: str) -> str | None:
        """The value of an option that has several names; None if it was not given.

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

    def address(self) -> str:
        """Where the cluster is. ToolError if it was not given."""
        found = self.one("bootstrap-server", "broker-list")
        if not found:
            raise ToolError("--bootstrap-server must be specified")
        return found

    def bootstrap(
        self, *files: str, properties: Mapping[str, str] = MappingProxyType({})
    ) -> Bootstrap:
        """The cluster; `files`: other options that may name a file with properties of clients."""
        from kbroker.cli.arguments.bootstrap_reading import named_bootstrap

        return named_bootstrap(self.address(), self.one("command-config", *files), properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`run` returns the exit code, and may raise ToolError. `takes`: what may stand beside the
    options; `short`: options by their one letter.
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
    """Raises ToolError for what is not in the table, or belongs to another action."""
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
    """The value of an option, which may be the next of the `rest`; none if it takes none."""
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
    """Return what `--help` prints."""
    takes = "" if tool.takes is None else f" {tool.takes}"
    lines = [f"kafka-{name}{takes} [OPTION]...", "", f"It {tool.summary} Options that are served:"]
    for option_name, option in sorted({**tool.options, **HELP}.items()):
        words = f"  --{option_name}"
        if option.value is not None:
            words += f" [{option.value}]" if option.default is not None else f" {option.value}"
        gap = words.ljust(_COLUMN) if len(words) < _COLUMN else f"{words}\n{' ' * _COLUMN}"
        told = textwrap.wrap(option.help, _WIDTH - _COLUMN)
        lines.append(gap + f"\n{' ' * _COLUMN}".join(told))
    return "\n".join(lines)


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Settings from the KEY=VALUE texts of an option; a text without `=` has an empty value."""
    found = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not key:
            raise ToolError(f"--{option} '{text}' is not KEY=VALUE")
        found[key] = value
    return found
