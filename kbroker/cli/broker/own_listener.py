"""The listener of a broker on this machine, as the settings of its start describe it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import NamedTuple

import click
from click.core import ParameterSource

from kbroker.cli.arguments.connection import CommandError, ExitCode, link_errors
from kbroker.client.bootstrap import (
    Bootstrap,
    addresses_of,
    check_reachable,
    option_of,
    settings_of,
)
from kbroker.client.broker_link import BrokerLink
from kbroker.client.connection_settings import UNSECURED, Tls
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError, Trouble
from kbroker.ip_addresses import reached_here
from kbroker.model import WITH_LOGINS, WITH_TLS

_OPTION = "--settings"
_NO_FILE = "-"
_ANSWER_S = 5.0


class OwnListener(NamedTuple):
    """The address with what is needed for it; `is_closed`: all but a login that nobody gave."""

    bootstrap: Bootstrap
    is_closed: bool


def own_listener(properties: str, bootstrap: str) -> OwnListener:
    """Return the first listener of a start with these settings, to be reached as `bootstrap` would
    be; if that is without TLS and the listener has it, as a broker reaches itself.

    Raises CommandError for settings that no broker starts with.
    """
    from kbroker.server.start.launch import UsageError, properties_in
    from kbroker.server.start.settings_sources import SettingSources, load_settings

    if click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"{_OPTION} and --bootstrap exclude each other")
    try:
        values = {} if properties == _NO_FILE else properties_in(properties)
        sources = SettingSources(properties=values, environment=os.environ)
        config = load_settings(sources).config
        listener = config.end_points()[0]
        settings = settings_of(bootstrap)
        if settings.protocol == UNSECURED.protocol and listener.security_protocol in WITH_TLS:
            settings = replace(settings, tls=_trust_of_broker(config, listener.listener_name))
    except (ConfigError, UsageError) as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    host = reached_here(listener.host)
    address = f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"
    is_closed = settings.login is None and listener.security_protocol in WITH_LOGINS
    return OwnListener(Bootstrap(address, settings, _OPTION), is_closed)


def problems_of_closed(bootstrap: str, _: tuple[str, ...] | None = None) -> list[str]:
    """List nothing if a broker answers as it does before a login. Raises CommandError if it does
    not.
    """
    ((host, port),) = addresses_of(bootstrap, option_of(bootstrap))
    settings = settings_of(bootstrap)
    with link_errors(bootstrap):
        check_reachable(bootstrap, option_of(bootstrap))
        try:
            BrokerLink(host, port, settings.request_timeout_s or _ANSWER_S, settings).close()
        except TimeoutError:
            raise
        except OSError as error:
            raise CommandError(str(error), ExitCode.CANNOT_CONNECT, Trouble.NO_ANSWER) from error
    return []


def _trust_of_broker(config: KafkaConfig, listener: str) -> Tls:
    """The TLS by which a broker on this machine is reached: as its own certificate, which is looked
    at alone. Raises ConfigError.
    """
    from kbroker.config.tls_settings import peer_tls
    from kbroker.tls.tls_context import client_context, load_trusted

    way = replace(peer_tls(config, listener), checks_host_name=False)
    assert way.own is not None
    context = client_context(way)
    load_trusted(context, way.own)
    return Tls(context=context)
