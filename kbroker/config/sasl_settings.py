"""SaslSettings: the logins of one listener, by mechanism.

Law: as in Kafka 3.9, a listener's logins and handlers are read by the mechanism's own name only: a
plain `sasl.jaas.config` may be the login of a client, and lets nobody in. No error shows a part of
a login. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from kbroker.config.config_values import invalid_value
from kbroker.config.jaas import LoginModule, parse_jaas
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.listener_overrides import listener_prefix
from kbroker.errors import ConfigError
from kbroker.near_names import did_you_mean

LOGIN_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
_JAAS, _HANDLER = "sasl.jaas.config", "sasl.server.callback.handler.class"
_USER = "user_"


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismSettings:
    """The logins by one mechanism. `options` are those of its JAAS entry; a `handler` checks logins
    instead of it; `max_reauth_ms` is 0 for a session without an end.
    """

    options: Mapping[str, str] = field(repr=False)
    handler: str | None
    max_reauth_ms: int

    def passwords(self) -> dict[str, str]:
        """The passwords of PLAIN's users, by name."""
        return {
            name.removeprefix(_USER): password
            for name, password in self.options.items()
            if name.startswith(_USER)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """The mechanisms of one listener, in their order, and the largest message of a login."""

    mechanisms: Mapping[str, MechanismSettings]
    max_receive_bytes: int


def sasl_settings(config: KafkaConfig, listener: str) -> SaslSettings:
    """The SASL settings of a listener, by its name. Raises ConfigError with a sentence."""
    name, value = config.listener_setting("sasl.enabled.mechanisms", listener)
    mechanisms = cast("tuple[str, ...]", value)
    if not mechanisms:
        raise invalid_value(name, "", f"name at least one of {', '.join(LOGIN_MODULES)}")
    for mechanism in mechanisms:
        if mechanism not in LOGIN_MODULES:
            hint = (
                did_you_mean(mechanism, LOGIN_MODULES) or f": those are {', '.join(LOGIN_MODULES)}"
            )
            raise invalid_value(name, mechanism, f"no such mechanism is served{hint}")
    size = config.listener_setting("sasl.server.max.receive.size", listener)[1]
    return SaslSettings(
        mechanisms={each: _mechanism(config, listener, each) for each in mechanisms},
        max_receive_bytes=cast("int", size),
    )


def _mechanism(config: KafkaConfig, listener: str, mechanism: str) -> MechanismSettings:
    handler = _own(config, listener, mechanism, _HANDLER)
    jaas = _own(config, listener, mechanism, _JAAS)
    name = f"{listener_prefix(listener, mechanism)}{_JAAS}"
    options = {} if jaas is None else _module(name, jaas, mechanism).options
    settings = MechanismSettings(
        options=options,
        handler=handler,
        max_reauth_ms=cast(
            "int", config.listener_setting("connections.max.reauth.ms", listener, mechanism)[1]
        ),
    )
    if mechanism == "PLAIN" and handler is None and not settings.passwords():
        raise ConfigError(
            f"{name} names no users of PLAIN: set it to 'org.apache.kafka.common.security.plain."
            f'PlainLoginModule required user_NAME="PASSWORD";\'{_not_read(config, listener)}'
        )
    return settings


def _module(name: str, text: str, mechanism: str) -> LoginModule:
    """The one entry of a mechanism's JAAS text, whose options are not shown."""
    try:
        modules = parse_jaas(text)
    except ValueError as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error
    if len(modules) != 1:
        raise ConfigError(f"{name} has {len(modules)} login modules: it takes one")
    wanted, module = LOGIN_MODULES[mechanism], modules[0]
    if module.class_name != wanted:
        raise ConfigError(f"{name} is not for {mechanism}: its login module is {wanted}")
    return module


def _own(config: KafkaConfig, listener: str, mechanism: str, base: str) -> str | None:
    """The value that is set for this mechanism of the listener alone; None for none."""
    name, value = config.listener_setting(base, listener, mechanism)
    own = f"{listener_prefix(listener, mechanism)}{base}"
    return cast("str | None", value) if name == own else None


def _not_read(config: KafkaConfig, listener: str) -> str:
    name, value = config.listener_setting(_JAAS, listener)
    return "" if value is None else f"; {name} is not read for the logins of a listener"
