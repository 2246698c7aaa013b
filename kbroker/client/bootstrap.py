"""Bootstrap: where a cluster is, and how to connect to it."""

from __future__ import annotations

from typing import Self

from kbroker.client.addresses import OPTION
from kbroker.client.connection_settings import UNSECURED, ConnectionSettings


class Bootstrap(str):
    """`HOST:PORT[,HOST:PORT ...]`, settings, and the option that gave it. A text, so that it goes
    where an address goes; a plain text means a cluster without TLS and logins, given by --bootstrap
    (see `settings_of` and `option_of`).
    """

    settings: ConnectionSettings
    option: str

    def __new__(
        cls, address: str, settings: ConnectionSettings = UNSECURED, option: str = OPTION
    ) -> Self:
        """Two with the same text are equal. What is empty between commas, or behind the last, is
        ignored, as by clients of Kafka.
        """
        parts = [part.strip() for part in address.split(",")]
        found = super().__new__(cls, ",".join(filter(None, parts)) or address)
        found.settings, found.option = settings, option
        return found


def settings_of(bootstrap: str) -> ConnectionSettings:
    """The settings that an address came with."""
    return bootstrap.settings if isinstance(bootstrap, Bootstrap) else UNSECURED


def option_of(bootstrap: str) -> str:
    """The option that an address came with."""
    return bootstrap.option if isinstance(bootstrap, Bootstrap) else OPTION
