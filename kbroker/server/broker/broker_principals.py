"""The principals of connections: who a client is, by its certificate or its login.

Law: as Kafka's default builder has it, the login decides on a listener with logins, on the others
the name in the client's certificate after `ssl.principal.mapping.rules`; nobody else has a name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.principal_rules import NoRuleError, parse_principal_rules
from kbroker.errors import ProtocolError
from kbroker.protocol.request import ConnectionInfo
from kbroker.python_names import loaded
from kbroker.tls.certificate import subject_name

_log = logging.getLogger(__name__)

_BUILDER, _RULES = "principal.builder.class", "ssl.principal.mapping.rules"
_KAFKAS_BUILDERS = frozenset(
    {
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "org.apache.kafka.common.security.auth.DefaultPrincipalBuilder",
    }
)
ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client as `principal.builder.class` gets it."""

    listener_name: str
    security_protocol: str
    address: str
    login_name: str | None  # on a listener with logins
    certificate_name: str | None  # as Java prints it
    certificate: bytes | None = field(repr=False)  # in DER


Build = Callable[[Client], str]
"""Gives a client its principal, like `User:ann`."""


class BrokerPrincipals:
    """The principals of the clients at one listener."""

    def __init__(self, config: KafkaConfig, listener: str) -> None:
        """Raises ConfigError for rules or a builder that cannot be used."""
        name, builder = _text(config, _BUILDER, listener)
        self._rules = parse_principal_rules(*reversed(_text(config, _RULES, listener)))
        self._build: Build = self._by_default
        if builder and builder not in _KAFKAS_BUILDERS:
            self._build = loaded(name, builder)

    def settle(self, connection: ConnectionInfo, login_name: str | None = None) -> None:
        """Give a connection its principal, after the handshake and after each login. Raises
        ProtocolError if it can have none.
        """
        certificate = connection.certificate
        try:
            client = Client(
                listener_name=connection.listener_name,
                security_protocol=connection.security_protocol,
                address=connection.peer_host,
                login_name=login_name,
                certificate_name=None if certificate is None else subject_name(certificate),
                certificate=certificate,
            )
            principal = str(self._build(client))
        except NoRuleError as error:
            raise ProtocolError(str(error)) from error
        except BaseException as error:  # `sys.exit` of a builder would end the broker
            _log.error("%s ended by a bug: %r", _BUILDER, error)
            raise ProtocolError(f"{_BUILDER} found no principal for it") from error
        kind, separator, user = principal.partition(":")
        if not (kind and separator and user):
            raise ProtocolError(f"{_BUILDER} gave it {principal!r}, which is not like User:x")
        connection.principal = f"{kind}:{user}"

    def _by_default(self, client: Client) -> str:
        if client.login_name is not None:
            return f"User:{client.login_name}"
        if client.certificate_name is None:
            return ANONYMOUS
        return f"User:{self._rules.user_name(client.certificate_name)}"


def _text(config: KafkaConfig, base: str, listener: str) -> tuple[str, str]:
    """The whole name of a setting of a listener, and its text."""
    name, value = config.listener_setting(base, listener)
    return name, cast("str | None", value) or ""
