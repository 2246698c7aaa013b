"""Reads connection settings from options of kafka-python, which some callers give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import (
    ConnectionSettings,
    check_names,
    connection_settings,
    without_effect,
)
from kbroker.client.exit_code import ExitCode

# The others are Java's with underscores.
_NAMES = {
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}


def library_settings(options: Mapping[str, Any]) -> ConnectionSettings:
    """Read the settings from options. Raises ClientError with a sentence."""
    given = {name: value for name, value in options.items() if value is not None}
    context = given.pop("ssl_context", None)
    checks_host_name = given.pop("ssl_check_hostname", True)
    properties = {_NAMES.get(each, each.replace("_", ".")): str(given[each]) for each in given}
    check_names(properties, "the arguments")
    for name in without_effect(properties):
        raise ClientError(f"the arguments: {name} has no effect here", ExitCode.USAGE)
    settings = connection_settings(properties)
    if settings.tls is None:
        return settings
    tls = replace(settings.tls, context=context)
    return replace(settings, tls=tls if checks_host_name else replace(tls, checks_host_name=False))
