"""The listeners of a broker that its HTTP address follows: whose certificate it shows, and whose
users it asks for. Pure.

Law: if a listener has TLS, that address is https; if a listener takes names and passwords, that
address does. So nobody gets at a broker there who would not at its listeners.
"""

from __future__ import annotations

from kbroker.config.kafka_config import KafkaConfig
from kbroker.model import WITH_LOGINS, WITH_TLS, EndPoint

PASSWORD_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


def login_listener(config: KafkaConfig) -> EndPoint | None:
    """The first listener that takes names and passwords; None if no listener does. Raises
    ConfigError.
    """
    with_logins = [each for each in config.end_points() if each.security_protocol in WITH_LOGINS]
    if not with_logins:
        return None
    from kbroker.config.sasl_settings import sasl_settings  # few brokers have logins

    for each in with_logins:
        offered = sasl_settings(config, each.listener_name).mechanisms
        if not offered.keys().isdisjoint(PASSWORD_MECHANISMS):
            return each
    return None


def console_listener(config: KafkaConfig) -> EndPoint | None:
    """The listener at which the console of the broker is a client: that of the logins, else the
    first that lets in everybody; None if each asks for something that no browser has. Raises
    ConfigError.
    """
    found = login_listener(config)
    if found is not None:
        return found
    return next((each for each in config.end_points() if lets_in_everybody(config, each)), None)


def lets_in_everybody(config: KafkaConfig, end_point: EndPoint) -> bool:
    """Whether a listener asks neither for a login nor for a client's certificate."""
    if end_point.security_protocol == "SSL":
        return config.listener_setting("ssl.client.auth", end_point.listener_name)[1] != "required"
    return end_point.security_protocol == "PLAINTEXT"


def tls_listener(config: KafkaConfig) -> EndPoint | None:
    """The listener whose certificate is shown: that of the logins, else the first with TLS; None if
    no listener has TLS. Raises ConfigError.
    """
    of_logins = login_listener(config)
    candidates = ([] if of_logins is None else [of_logins]) + list(config.end_points())
    return next((each for each in candidates if each.security_protocol in WITH_TLS), None)
