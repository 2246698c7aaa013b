"""Bootstrap: where a cluster is, and how to connect to it."""

from __future__ import annotations

from typing import Self

from kbroker.client.connection_settings import UNSECURED, ConnectionSettings


class Bootstrap(str):
    """`HOST:PORT[,HOST:PORT ...]` and settings. A text, so that it goes where an address goes; a
    plain text means a cluster without TLS and logins (see `settings_of`).
    """

    settings: ConnectionSettings

    def __new__(cls, address: str, settings: ConnectionSettings = UNSECURED) -> Self:
        """Text and settings; two with the same text are equal."""
        found = super().__new__(cls, address)
        found.settings = settings
        return found


def settings_of(bootstrap: str) -> ConnectionSettings:
    """The settings that an address came with."""
    return bootstrap.settings if isinstance(bootstrap, Bootstrap) else UNSECURED
