"""The login by OAUTHBEARER in the properties of Kafka's clients, Java's and librdkafka's."""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.client.client_error import ClientError
from kbroker.client.exit_code import ExitCode
from kbroker.client.wall_clock import unix_now_ms
from kbroker.config.config_values import ConfigValue
from kbroker.config.jaas import parse_jaas
from kbroker.config.kafka_config import config_key
from kbroker.errors import ConfigError
from kbroker.sasl.login import Login
from kbroker.tokens.token_login import ENCODED, token_login

_MODULE = "OAuthBearerLoginModule"
_PREFIX = "sasl.oauthbearer."
_METHOD, _EXTENSIONS = f"{_PREFIX}method", f"{_PREFIX}extensions"
_CA_FILE, _CA_TEXT = "https.ca.location", "https.ca.pem"
# Properties that say what an option of JAAS does.
_OPTION_OF = {
    f"{_PREFIX}client.credentials.client.id": "clientId",
    f"{_PREFIX}client.credentials.client.secret": "clientSecret",
    f"{_PREFIX}client.id": "clientId",
    f"{_PREFIX}client.secret": "clientSecret",
    f"{_PREFIX}scope": "scope",
    ENCODED: ENCODED,
    _CA_FILE: "ssl.truststore.location",
    _CA_TEXT: "ssl.truststore.certificates",
}


def token_settings(values: Mapping[str, str], jaas: str | None) -> Login:
    """Make the login of these properties; `jaas` is that of JAAS. Raises ClientError."""
    options = {} if jaas is None else _options(jaas)
    options |= {_OPTION_OF[name]: values[name] for name in values.keys() & _OPTION_OF.keys()}
    if _CA_FILE in values:
        options["ssl.truststore.type"] = "PEM"
    for pair in filter(None, values.get(_EXTENSIONS, "").split(",")):
        name, _, value = pair.strip().partition("=")
        options[f"extension_{name}"] = value

    def get(name: str) -> tuple[str, ConfigValue]:
        key = config_key(name)
        assert key is not None, "those of brokers have the same names"
        return name, key.parse(values[name]) if name in values else key.default

    try:
        return token_login(get, "sasl.jaas.config", options, unix_now_ms)
    except ConfigError as error:
        raise ClientError(str(error), ExitCode.USAGE) from error


def _options(jaas: str) -> dict[str, str]:
    try:
        modules = parse_jaas(jaas)
    except ValueError as error:
        raise _unread(str(error)) from error
    if len(modules) != 1 or modules[0].class_name != _MODULE:
        raise _unread("it is not one of OAUTHBEARER")
    return dict(modules[0].options)


def _unread(reason: str) -> ClientError:
    return ClientError(
        f"sasl.jaas.config cannot be read: {reason}; write 'org.apache.kafka.common.security."
        f'oauthbearer.{_MODULE} required clientId="ID" clientSecret="SECRET";\'',
        ExitCode.USAGE,
    )
