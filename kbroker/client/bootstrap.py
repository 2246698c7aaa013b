"""Bootstrap: the address of a cluster as a person gave it, and the settings to connect with."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Self

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import UNSECURED, ConnectionSettings
from kbroker.client.exit_code import ExitCode
from kbroker.errors import Trouble

OPTION = "--bootstrap"
_CONNECT_TIMEOUT_S = 5
_MAX_PORT = 65_535


class Bootstrap(str):
    """`HOST:PORT[,HOST:PORT ...]`, the settings, and the option that gave the address. A text, so
    that it can stand wherever an address can; a plain text means a cluster without TLS and logins,
    given by --bootstrap (see `settings_of` and `option_of`).
    """

    settings: ConnectionSettings
    option: str

    def __new__(
        cls, address: str, settings: ConnectionSettings = UNSECURED, option: str = OPTION
    ) -> Self:
        """Make an address; two with the same text are equal. Empty parts between commas are
        ignored, as Kafka's clients do.
        """
        parts = [part.strip() for part in address.split(",")]
        found = super().__new__(cls, ",".join(filter(None, parts)) or address)
        found.settings, found.option = settings, option
        return found


def as_bootstrap(bootstrap: str) -> Bootstrap:
    """An address with the settings that it came with."""
    return bootstrap if isinstance(bootstrap, Bootstrap) else Bootstrap(bootstrap)


def with_client_id(bootstrap: str, client_id: str) -> Bootstrap:
    """An address whose connections have this client id, unless its settings name another."""
    found = as_bootstrap(bootstrap)
    settings = replace(found.settings, client_id=found.settings.client_id or client_id)
    return Bootstrap(found, settings, found.option)


def settings_of(bootstrap: str) -> ConnectionSettings:
    return bootstrap.settings if isinstance(bootstrap, Bootstrap) else UNSECURED


def option_of(bootstrap: str) -> str:
    return bootstrap.option if isinstance(bootstrap, Bootstrap) else OPTION


def check_reachable(bootstrap: str, name: str = OPTION) -> None:
    """Raise ClientError at once if nobody listens, because the client library would retry for
    seconds. `name` is the option that gave the address.
    """
    for host, port in addresses_of(bootstrap, name):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            reason = error.strerror or str(error)
        except UnicodeError:
            reason = f"'{host}' is not a host name"
    raise cannot_connect(bootstrap, reason, name)


def addresses_of(bootstrap: str, name: str = OPTION) -> Iterator[tuple[str, int]]:
    """Yield the hosts and ports of `HOST:PORT[,HOST:PORT ...]`; ClientError for a malformed one."""
    for address in bootstrap.split(","):
        host, separator, port = address.strip().rpartition(":")
        is_port = port.isascii() and port.isdecimal() and int(port) <= _MAX_PORT
        if not separator or "/" in host or not is_port:
            raise ClientError(f"{name} '{address}' is not HOST:PORT", ExitCode.USAGE)
        yield host.strip("[]"), int(port)


def cannot_connect(bootstrap: str, reason: str, name: str = OPTION) -> ClientError:
    """Return the error for a cluster of which no broker answers."""
    return ClientError(
        f"cannot connect to {bootstrap}: {reason} "
        f"(is a broker running? start one with `kbroker`, or give {name} HOST:PORT)",
        ExitCode.CANNOT_CONNECT,
        Trouble.CANNOT_CONNECT,
    )
