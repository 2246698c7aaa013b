"""Reads the address of a cluster, and how to connect to it, from the options of a command.

The address of the command line wins, then `-X bootstrap.servers`, then the environment, then the
file; for all other properties `-X` wins over the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click
from click.core import ParameterSource

from kbroker.cli.shown.output import say
from kbroker.client.bootstrap import Bootstrap, addresses_of
from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import (
    BOOTSTRAP,
    ConnectionSettings,
    check_names,
    connection_settings,
    with_one_spelling,
    without_effect,
)
from kbroker.config.foreign_settings import PROVIDERS
from kbroker.config.properties_file import parse_properties
from kbroker.errors import ConfigError

CLUSTER_OPTIONS = ("bootstrap", "command_config", "command_property")
"""The parameters of a command that identify a cluster."""


def bootstrap_of(ctx: click.Context) -> Bootstrap:
    """Return the address and settings of this call; the address is empty if none is given."""
    given, saved = _properties(ctx)
    settings = settings_of_call(ctx)
    address = ctx.params["bootstrap"]
    source = ctx.get_parameter_source("bootstrap")
    if source is not ParameterSource.COMMANDLINE:
        is_default = source in (ParameterSource.DEFAULT, None)
        address = given.get(BOOTSTRAP) or (is_default and saved.get(BOOTSTRAP)) or address
        if source is ParameterSource.ENVIRONMENT and BOOTSTRAP not in given:
            _check_variable(address)
    return Bootstrap(address or "", settings)


def settings_of_call(ctx: click.Context) -> ConnectionSettings:
    """Return the settings of this call, also of a command that takes no address of a cluster."""
    given, saved = _properties(ctx)
    for name in () if ctx.resilient_parsing else without_effect(saved | given):
        say(f"{name} has no effect here")
    return _settings(saved | given)


def properties_of_call(ctx: click.Context) -> dict[str, str]:
    """Return the properties of this call as they were given, in names and in variables."""
    file = ctx.params["command_config"]
    saved = parse_properties(Path(file).read_text(encoding="utf-8")) if file else {}
    return saved | dict(ctx.params["command_property"])


def named_bootstrap(address: str, file: str | None, properties: Mapping[str, str]) -> Bootstrap:
    """Return the cluster at an address read elsewhere; `properties` win over the file's."""
    found = _read(file) | _known(dict(properties), "the command line")
    for name in without_effect(found):
        say(f"{name} has no effect here")
    return Bootstrap(address, _settings(found), "--bootstrap-server")


def other_bootstrap(address: str | None, file: str | None, option: str) -> Bootstrap:
    """Return a second cluster beside that of `bootstrap_of`, given by options of its own. It gets
    none of the first one's properties, because they may hold a password.
    """
    saved = _read(file)
    return Bootstrap(address or saved.get(BOOTSTRAP, ""), _settings(saved), option)


def bootstrap_of_call(ctx: click.Context, *, has_other_source: bool) -> Bootstrap | None:
    """Return the cluster that this call names, if any. If there is another source, an address or a
    file from the environment does not count: it was set for all commands, not for this one.
    """
    places = {ctx.get_parameter_source(name) for name in CLUSTER_OPTIONS}
    is_named = bool(places & {ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP})
    if has_other_source and not is_named:
        return None
    found = bootstrap_of(ctx)
    if not found and is_named:
        raise click.UsageError("--command-config and -X are for a cluster: give --bootstrap too")
    return found or None


def _properties(ctx: click.Context) -> tuple[dict[str, str], dict[str, str]]:
    """Return the properties of the command line, and those of the file."""
    given = _known(dict(ctx.params["command_property"]), "-X")
    return given, _read(ctx.params["command_config"])


def _check_variable(address: str) -> None:
    """Blame the variable for a malformed address: nobody gave an option."""
    try:
        for _ in addresses_of(address, "KBROKER_BOOTSTRAP"):
            pass
    except ClientError as error:
        raise click.UsageError(error.sentence) from error


def _read(file: str | None) -> dict[str, str]:
    """Return the properties of a file; none without a file."""
    if not file:
        return {}
    try:
        properties = parse_properties(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file} is not text in UTF-8") from error
    return _known(_with_values(properties, file), file)


def _with_values(properties: dict[str, str], file: str) -> dict[str, str]:
    """Put values in place of variables such as `${env:NAME}`, as Java's clients do."""
    if any("${" in text for text in properties.values()):
        from kbroker.server.start.config_providers import resolved  # few files have any

        try:
            properties = resolved(properties, os.environ)
        except ConfigError as error:
            raise click.UsageError(f"{file}: {error}") from error
    return {name: text for name, text in properties.items() if not name.startswith(PROVIDERS)}


def _known(properties: dict[str, str], place: str) -> dict[str, str]:
    try:
        check_names(properties, place)
    except ClientError as error:
        raise click.UsageError(error.sentence) from error
    return with_one_spelling(properties)


def _settings(properties: Mapping[str, str]) -> ConnectionSettings:
    try:
        return connection_settings(properties)
    except ClientError as error:
        raise click.UsageError(error.sentence) from error
