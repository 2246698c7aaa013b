"""Sentences about brokers that do not let a command in, with the property that helps."""

from __future__ import annotations

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import ConnectionSettings
from kbroker.client.exit_code import ExitCode
from kbroker.errors import Trouble

_TLS_ALERT = b"\x15\x03"  # how a TLS port answers anything but TLS
_HTTP = b"HTTP"


def refused(address: str, reason: str, trouble: Trouble = Trouble.CANNOT_CONNECT) -> ClientError:
    """Return the error for a broker that cannot be used until a person puts something right."""
    return ClientError(
        f"cannot connect to {address}: {reason}",
        ExitCode.CANNOT_CONNECT,
        trouble,
    )


def check_first_bytes(address: str, head: bytes, settings: ConnectionSettings) -> None:
    """Raise ClientError if the first bytes show that something else than a broker listens."""
    if head.startswith(_TLS_ALERT) and settings.tls is None:
        protocol = "SSL, or SASL_SSL with a login" if settings.login is None else "SASL_SSL"
        raise refused(
            address,
            f"this port speaks TLS: give security.protocol={protocol}, and ssl.ca.location=FILE "
            "if its certificate comes from an authority of your own",
        )
    if head == _HTTP:
        raise refused(address, "a web server listens there, not a Kafka broker")


def no_tls(settings: ConnectionSettings) -> str:
    """Return the reason why TLS fails at a broker that answers without it."""
    plain = settings.protocol.replace("SSL", "PLAINTEXT")
    return f"this port does not speak TLS: give the port that does, or security.protocol={plain}"


def tls_hint(settings: ConnectionSettings) -> str:
    """Return a hint for a port that cuts the connection at the first bytes without TLS."""
    protocol = "SSL, or SASL_SSL with a login" if settings.login is None else "SASL_SSL"
    return (
        f"at the first bytes: if the port speaks TLS, give security.protocol={protocol}, and "
        "ssl.ca.location=FILE"
    )


def login_hint(settings: ConnectionSettings) -> str:
    """Return a hint for a broker that cuts the connection at its first request."""
    return (
        "at the first request: if the port needs a login, give security.protocol="
        f"SASL_{settings.protocol}, sasl.mechanism, sasl.username and sasl.password"
    )
