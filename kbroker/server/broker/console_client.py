"""ConsoleClient: how the console of a broker comes in at that broker and at the others.

Law: it comes in as whoever asks there would: as the user who has logged in over HTTP, else as a
client that nobody knows, and never as the broker. So what the user may do is decided where it is
for all clients.

Used by threads of the console.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import ConnectionSettings, Tls
from kbroker.client.exit_code import ExitCode
from kbroker.config.http_access import console_listener
from kbroker.config.kafka_config import KafkaConfig
from kbroker.console.web.app import CLIENT_ID
from kbroker.ip_addresses import reached_here
from kbroker.model import WITH_LOGINS, WITH_TLS, EndPoint
from kbroker.sasl.login import Login

_CLOSED: Final = (
    "no listener of this broker takes names and passwords: ask it with `kbroker console "
    "--command-config FILE`, which has what its clients log in with"
)


class ConsoleClient:
    """The ways of one console into its cluster."""

    def __init__(
        self,
        config: Callable[[], KafkaConfig],
        bound: Sequence[EndPoint],
        login: Login | None,
    ) -> None:
        """`config` returns the settings in force, `bound` has the listeners with their ports."""
        self._config = config
        self._login = login
        self._listener = console_listener(config())
        name = "" if self._listener is None else self._listener.listener_name
        self.address = _address(config(), next((e for e in bound if e.listener_name == name), None))

    def open_links(self, address: str) -> ClusterLinks:
        """Open links by the certificates and settings of now. Raises ClientError."""
        listener = self._listener
        if listener is None:
            raise ClientError(_CLOSED, ExitCode.USAGE)
        has_tls = listener.security_protocol in WITH_TLS
        settings = ConnectionSettings(
            tls=self._tls(listener) if has_tls else None, login=self._login, client_id=CLIENT_ID
        )
        return ClusterLinks(Bootstrap(address, settings))

    def _tls(self, listener: EndPoint) -> Tls:
        from kbroker.config.tls_settings import peer_tls  # most brokers have no TLS
        from kbroker.tls.tls_context import client_context, load_trusted

        way = peer_tls(self._config(), listener.listener_name)
        own = way.own
        if listener.security_protocol not in WITH_LOGINS:
            way = replace(way, own=None)  # which would be the broker's name
        context = client_context(way)
        if own is not None:
            load_trusted(context, own)  # a broker alone need not trust anybody
        return Tls(context=context)


def _address(config: KafkaConfig, bound: EndPoint | None) -> str:
    """The address of a listener for its own broker: that which others get, if it is set, as its
    certificate may be for that alone.
    """
    if bound is None:
        return "127.0.0.1:0"
    if config.socket_server.advertised_listeners is not None:
        for each in config.advertised_end_points():
            if each.listener_name == bound.listener_name and each.security_protocol in WITH_TLS:
                bound = each
    host = reached_here(bound.host)
    return f"[{host}]:{bound.port}" if ":" in host else f"{host}:{bound.port}"
