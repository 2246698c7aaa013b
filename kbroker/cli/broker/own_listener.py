"""Where the broker listens that a start with some settings brings up on this machine."""

from __future__ import annotations

import os

import click
from click.core import ParameterSource

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.client.bootstrap import Bootstrap, settings_of
from kbroker.errors import ConfigError

_OPTION = "--settings"
_NO_FILE = "-"
# One that listens everywhere is reached by the loopback address.
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  not listened on


def own_listener(properties: str, bootstrap: str) -> Bootstrap:
    """The first listener of such a start, to be reached as `bootstrap` would be.

    Raises UsageError, and CommandError for settings that no broker starts with.
    """
    from kbroker.server.start.launch import UsageError, properties_in
    from kbroker.server.start.settings_sources import SettingSources, load_settings

    if click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"{_OPTION} and --bootstrap exclude each other")
    try:
        values = {} if properties == _NO_FILE else properties_in(properties)
        sources = SettingSources(properties=values, environment=os.environ)
        listener = load_settings(sources).config.end_points()[0]
    except (ConfigError, UsageError) as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    host = _EVERYWHERE.get(listener.host, listener.host)
    address = f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"
    return Bootstrap(address, settings_of(bootstrap), _OPTION)
