"""The parts of a broker's listeners, from its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbroker.config.kafka_config import KafkaConfig
from kbroker.model import EndPoint
from kbroker.network.listener_parts import ListenerParts, MakeParts, plaintext_parts
from kbroker.network.wire import SocketWire

if TYPE_CHECKING:  # a broker without logins does without it
    from kbroker.server.broker.broker_logins import BrokerLogins

_SASL = "SASL_PLAINTEXT"


def asks_for_logins(config: KafkaConfig) -> bool:
    """True if clients have to log in at a listener."""
    return any(each.security_protocol == _SASL for each in config.end_points())


def check_listener(config: KafkaConfig, listener: EndPoint) -> None:
    """Raise ConfigError if a listener cannot be served as the settings want it."""
    if listener.security_protocol != _SASL:
        plaintext_parts(listener)
        return
    from kbroker.server.broker.login_offers import check_logins

    check_logins(config, listener.listener_name)


def parts_of_listeners(logins: BrokerLogins | None) -> MakeParts:
    """Return what gives each listener its parts; `logins` is for those that ask for one."""

    def parts(listener: EndPoint) -> ListenerParts:
        if logins is None or listener.security_protocol != _SASL:
            return plaintext_parts(listener)
        return ListenerParts(SocketWire, logins.at(listener.listener_name).login_of)

    return parts
