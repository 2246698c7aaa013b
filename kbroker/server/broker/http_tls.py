"""HttpTls: the TLS of a broker's HTTP address, which is that of one of its listeners.

Law: it follows the listener, and so whatever holds for new certificates there; a client's
certificate is not asked for, as browsers would ask their users for one.

Owned by the HTTP thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.tls_settings import TlsSettings, tls_settings
from kbroker.tls.tls_context import ServerTls, server_context, with_texts


class HttpTls:
    """Call it for the TLS of a new connection."""

    def __init__(
        self, config: KafkaConfig, listener: str, in_force: Callable[[], TlsSettings | None]
    ) -> None:
        """`in_force` returns the settings of the listener with the texts of their files, None while
        the broker starts; it is called by the HTTP thread.
        """
        self._config = config
        self._listener = listener
        self._in_force = in_force
        self._made: tuple[TlsSettings, ServerTls] | None = None

    def __call__(self) -> ServerTls:
        """Return the TLS in force. Raises ConfigError if a file cannot be used in a start."""
        settings = self._in_force()
        made = self._made
        if made is not None and (settings is None or settings is made[0]):
            return made[1]
        settings = settings or with_texts(tls_settings(self._config, self._listener))
        server = server_context(replace(settings, client_auth="none"))
        self._made = settings, server
        return server
