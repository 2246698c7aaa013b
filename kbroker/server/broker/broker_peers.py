"""The ways into other brokers, out of the settings of the own listener of that name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kbroker.config.config_values import ConfigValue
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.peers.way import PLAIN_WAY, LogIn, NotLetInError, Way
from kbroker.server.system_clock import SystemClock

if TYPE_CHECKING:
    from kbroker.config.peer_login import PeerLogin
    from kbroker.sasl.login import Login


def way_into(config: Callable[[], KafkaConfig], listener: str) -> Way:
    """The way by the settings in force. A broker alone needs none, so one that the settings do not
    describe is refused when it is used.
    """
    try:
        return checked_way(config, listener)
    except ConfigError as error:
        return Way(partial(_closed, error))


def check_ways(config: KafkaConfig) -> None:
    """Raises ConfigError if the settings do not say how to connect to the other brokers."""
    config.check_reached_by_brokers()
    for listener in config.listeners_of_brokers():
        checked_way(lambda: config, listener)


def checked_way(config: Callable[[], KafkaConfig], listener: str) -> Way:
    """The way into a listener. Raises ConfigError."""
    now = config()
    protocol = next(
        (e.security_protocol for e in now.end_points() if e.listener_name == listener), "PLAINTEXT"
    )
    way = PLAIN_WAY
    if protocol.endswith("SSL"):
        # Here and below: most brokers need none of it.
        from kbroker.config.tls_settings import peer_tls
        from kbroker.peers.tls_connect import TlsConnect

        way = way._replace(connect=TlsConnect(lambda: peer_tls(config(), listener)))
    if protocol.startswith("SASL_"):
        way = way._replace(log_in=_log_in(config, listener))
    return way


def _log_in(config: Callable[[], KafkaConfig], listener: str) -> LogIn:
    from kbroker.config.peer_login import peer_login
    from kbroker.peers.broker_login import BrokerLogin

    found = peer_login(config(), listener)
    if found.is_by_token:
        from kbroker.tokens.token_login import token_login

        def get(name: str) -> tuple[str, ConfigValue]:
            return config().listener_setting(name, listener, found.mechanism)

        by_token = token_login(get, found.setting, found.options, SystemClock().now_ms)
        return BrokerLogin(lambda: by_token, found.setting).log_in
    return BrokerLogin(lambda: _by_password(peer_login(config(), listener)), found.setting).log_in


def _by_password(found: PeerLogin) -> Login:
    from kbroker.sasl.login import Login

    if found.is_by_token:
        raise ConfigError(f"start this broker again, so that it fetches tokens for {found.setting}")
    return Login(
        mechanism=found.mechanism,
        username=found.options["username"],
        password=found.options["password"],
    )


async def _closed(error: ConfigError, _: object, host: str, port: int) -> None:
    raise NotLetInError(f"the broker at {host}:{port} cannot be reached: {error}")
