"""Errors of usage: one sentence in place of click's, as for other errors, and where to read on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click

from kbroker.near_names import did_you_mean

# Click's sentences about values, and ours, which follow the name of the option.
_FORMS = (
    (r"('.*') is not a valid integer(?: range)?\.", r"\1 is not a whole number"),
    (r"('.*') is not a valid float\.", r"\1 is not a number"),
    (r"(.*) is not in the range x>=(.*)\.", r"\1 is less than \2"),
    (r"(File|Directory|Path) ('.*') does not exist\.", r"\2 does not exist"),
    (r"(File|Directory|Path) ('.*') is a (file|directory)\.", r"\2 is a \3"),
)
# Names in other programs for options whose names here do not look like them.
_OTHER_NAMES = {
    "--port": "--listen",
    "--host": "--listen",
    "--address": "--listen",
    "--log-dir": "--data",
    "--log-dirs": "--data",
    "--from-beginning": "--from",
    "--offset": "--from",
    "--max-messages": "--count",
    "--set": "--override",
}
_SETTINGS_FILE = frozenset({"--config", "--config-file", "--settings", "--properties"})
_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)
_NO_VALUE = re.compile(r"Option '(.*)' requires an argument\.")
_NO_FLAG = re.compile(r"Option '(.*)' does not take a value\.")


def show_usage_error(error: click.UsageError) -> None:
    """Print on standard error what is wrong, and which command says more."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    click.echo(f"Error: {sentence_of_usage(error)}", err=True)
    if error.ctx is not None:
        click.echo(f"See {error.ctx.command_path} --help", err=True)


def sentence_of_usage(error: click.UsageError) -> str:
    """Return the reason, worded as in the other commands.

    >>> sentence_of_usage(click.BadParameter("'x' is not a valid float.", param_hint="--timeout"))
    "--timeout 'x' is not a number"
    """
    if isinstance(error, click.NoSuchOption):
        return f"no such option: {error.option_name}{_nearest_option(error)}"
    if isinstance(error, click.MissingParameter):
        return _missing(error)
    if isinstance(error, click.BadParameter):
        return _bad_value(error)
    said = error.format_message()
    if found := _EXTRA.fullmatch(said):
        return f"unexpected argument: {found[1]}"
    if found := _NO_VALUE.fullmatch(said):
        return f"{found[1]} needs a value"
    if found := _NO_FLAG.fullmatch(said):
        return f"{found[1]} takes no value"
    return said


def _nearest_option(error: click.NoSuchOption) -> str:
    known = list(_options_of(error.ctx))
    meant = _OTHER_NAMES.get(error.option_name)
    if meant in known:
        return did_you_mean(meant, [meant])
    for argument in _arguments_of(error.ctx):
        if _is_meant(argument.human_readable_name.strip("[]."), error.option_name):
            return f", as it is an argument ({_usage(error.ctx)})"
    near = did_you_mean(error.option_name, known)
    if not near and error.ctx is not None and isinstance(error.ctx.command, click.Group):
        return (
            ": options follow the whole command, as in `kbroker topic list --bootstrap HOST:PORT`"
        )
    return near


def _is_meant(argument: str, option: str) -> bool:
    """Whether somebody who writes `option` means an argument, by its name in usage."""
    if argument == "server.properties":
        return option in _SETTINGS_FILE
    return argument == option.lstrip("-").upper()


def _arguments_of(ctx: click.Context | None) -> list[click.Argument]:
    parameters = [] if ctx is None else ctx.command.get_params(ctx)
    return [parameter for parameter in parameters if isinstance(parameter, click.Argument)]


def _usage(ctx: click.Context | None) -> str:
    assert ctx is not None, "it has the arguments"
    return "usage: " + " ".join(ctx.get_usage().removeprefix("Usage: ").split())


def _options_of(ctx: click.Context | None) -> Iterator[str]:
    if ctx is not None:
        for parameter in ctx.command.get_params(ctx):
            if isinstance(parameter, click.Option):
                yield from (name for name in parameter.opts if name.startswith("--"))


def _missing(error: click.MissingParameter) -> str:
    if error.param is None or error.ctx is None:
        return error.format_message()
    value = error.param.make_metavar(error.ctx)
    if isinstance(error.param, click.Argument):
        return f"missing argument: {value} ({_usage(error.ctx)})"
    return f"missing option: {max(error.param.opts, key=len)} {value}"


def _bad_value(error: click.BadParameter) -> str:
    name = _name_of(error)
    kind = error.param.type if error.param is not None else None
    if isinstance(kind, click.Choice):
        if isinstance(error.param, click.Argument):
            name = error.param.human_readable_name.upper()  # its metavar lists the choices
        found = re.match(r"'(.*)' is not one of ", error.message, re.DOTALL)
        if found is not None:
            return none_of(name, found[1], map(str, kind.choices))
    for form, own in _FORMS:
        if found := re.fullmatch(form, error.message, re.DOTALL):
            return f"{name} {found.expand(own)}"
    # Most sentences begin with the value, in quotes: `--to 'soon' is ...`.
    gap = " " if error.message.startswith("'") else ": "
    return f"{name}{gap}{error.message}"


def none_of(name: str, value: str, choices: Iterable[str]) -> str:
    """Return the sentence about a value that an option does not take.

    >>> none_of("--output", "jsn", ["table", "json"])
    "--output 'jsn' is none of table, json, did you mean json?"
    """
    known = list(choices)
    return f"{name} '{value}' is none of {', '.join(known)}{did_you_mean(value, known)}"


def _name_of(error: click.BadParameter) -> str:
    if isinstance(error.param, click.Option):
        return max(error.param.opts, key=len)
    if isinstance(error.param, click.Argument) and error.ctx is not None:
        return error.param.make_metavar(error.ctx)
    hint = error.param_hint
    return hint if isinstance(hint, str) else " / ".join(hint or ["the value"])
