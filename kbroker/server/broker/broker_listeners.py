"""The parts of a broker's listeners, from its settings."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.apis.context import Services
from kbroker.clock import Clock, ClockWithTimer
from kbroker.config.kafka_config import KafkaConfig, config_key
from kbroker.model import WITH_LOGINS, WITH_TLS, EndPoint
from kbroker.network.channel import Channel
from kbroker.network.listener_parts import ListenerParts, MakeChannel, MakeParts
from kbroker.network.wire import MakeWire, SocketWire
from kbroker.protocol.request import ConnectionInfo
from kbroker.zk import zk_paths

if TYPE_CHECKING:  # a broker without security does without them
    from kbroker.server.broker.broker_logins import BrokerLogins
    from kbroker.server.broker.broker_principals import BrokerPrincipals
    from kbroker.server.broker.broker_tls import BrokerTls

_BUILDER = "principal.builder.class"


def check_listener(config: KafkaConfig, listener: EndPoint) -> None:
    """Raise ConfigError if a listener cannot be served as the settings want it."""
    protocol, name = listener.security_protocol, listener.listener_name
    if protocol != "PLAINTEXT" or _has_own_builder(config, name):
        from kbroker.server.broker.broker_principals import BrokerPrincipals

        BrokerPrincipals(config, name)
    if protocol in WITH_TLS:
        from kbroker.server.broker.broker_tls import check_tls

        check_tls(config, name)
    if protocol in WITH_LOGINS:
        from kbroker.server.broker.login_offers import check_logins

        check_logins(config, name)


def tls_of(
    config: KafkaConfig,
    in_force: Callable[[], KafkaConfig],
    dynamic_configs: DynamicConfigManager,
    clock: ClockWithTimer,
) -> BrokerTls | None:
    """Make the TLS of a broker if a listener has it. It follows `dynamic_configs`, after those who
    put new settings in force.
    """
    if not any(each.security_protocol in WITH_TLS for each in config.end_points()):
        return None
    from kbroker.server.broker.broker_tls import BrokerTls

    tls = BrokerTls(config, clock)
    dynamic_configs.add_handler(zk_paths.BROKER_CONFIGS, lambda *_: tls.take(in_force()))
    return tls


def logins_of(
    config: KafkaConfig,
    in_force: Callable[[], KafkaConfig],
    dynamic_configs: DynamicConfigManager,
    services: Services,
    clock: Clock,
) -> BrokerLogins | None:
    """Make the logins of a broker if a listener asks for them."""
    if not any(each.security_protocol in WITH_LOGINS for each in config.end_points()):
        return None
    from kbroker.server.broker.broker_logins import BrokerLogins

    logins = BrokerLogins(in_force, services, clock)
    logins.follow(dynamic_configs)
    return logins


def checks_of(
    config: KafkaConfig, tls: BrokerTls | None
) -> tuple[Callable[[KafkaConfig], None], ...]:
    """Return what the listeners ask of settings that change while they are open; each check raises
    ConfigError.
    """
    checks = () if tls is None else (tls.check,)
    if any(each.security_protocol in WITH_LOGINS for each in config.end_points()):
        return (*checks, _check_changed_logins)
    return checks


def _check_changed_logins(config: KafkaConfig) -> None:
    from kbroker.server.broker.login_offers import check_logins

    if any("sasl." in name for name in config.dynamic_broker):
        for each in config.end_points():
            if each.security_protocol in WITH_LOGINS:
                check_logins(config, each.listener_name)


def parts_of_listeners(
    config: KafkaConfig, tls: BrokerTls | None, logins: BrokerLogins | None
) -> MakeParts:
    """Return what gives each listener its parts; `tls` and `logins` are for those that ask for
    them.
    """

    def parts(listener: EndPoint) -> ListenerParts:
        make_channel: MakeChannel = Channel
        name = listener.listener_name
        if listener.security_protocol in WITH_LOGINS:
            from kbroker.network.login_channel import LoginChannel

            assert logins is not None
            make_channel = partial(LoginChannel, logins=logins.at(name))
        if listener.security_protocol in WITH_TLS:
            assert tls is not None
            return ListenerParts(tls.at(listener).make_wire, make_channel)
        if listener.security_protocol not in WITH_LOGINS and _has_own_builder(config, name):
            return ListenerParts(_named_wire(config, name))
        return ListenerParts(SocketWire, make_channel)

    return parts


def _has_own_builder(config: KafkaConfig, listener: str) -> bool:
    key = config_key(_BUILDER)
    return key is not None and config.listener_setting(_BUILDER, listener)[1] != key.default


def _named_wire(config: KafkaConfig, listener: str) -> MakeWire:
    """The wire of a listener without TLS and logins, whose clients somebody gives names."""
    from kbroker.server.broker.broker_principals import BrokerPrincipals

    principals = BrokerPrincipals(config, listener)

    def make(sock: socket.socket, connection: ConnectionInfo, wide_buffer_bytes: int) -> SocketWire:
        return _NamedWire(principals, sock, connection, wide_buffer_bytes)

    return make


class _NamedWire(SocketWire):
    """A plain wire whose client gets its principal before anything is received."""

    __slots__ = ("_principals",)

    def __init__(
        self,
        principals: BrokerPrincipals,
        sock: socket.socket,
        connection: ConnectionInfo,
        wide_buffer_bytes: int,
    ) -> None:
        super().__init__(sock, connection, wide_buffer_bytes)
        self._principals = principals

    async def open(self, receiver: asyncio.BufferedProtocol) -> None:
        self._principals.settle(self.connection)
        await super().open(receiver)
