"""TLS and logins in the words of Spark's Kafka connector, which are Java's, and back.

A job has two clients: the connector's, in Java, and the project's own, for topics and offsets. A
person says once how both get in, as options of the connector (`kafka.security.protocol` and so on)
or as properties of a client. What one of the two cannot do is refused before anything starts: a job
needs both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import ConnectionSettings, Tls, connection_settings
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.sasl.login import Login

_PREFIX = "kafka."
_SECURITY_OPTIONS = ("kafka.sasl.", "kafka.security.", "kafka.ssl.")  # how their names begin
_KNOWN = {
    f"{_PREFIX}{name}"
    for name in (
        "sasl.jaas.config", "sasl.mechanism", "security.protocol",
        "ssl.endpoint.identification.algorithm", "ssl.key.password",
        "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
        "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location",
        "ssl.truststore.type",
    )
}  # fmt: skip


def settings_of_connector(options: Mapping[str, str]) -> ConnectionSettings:
    """Return the TLS and login settings in these options of the connector. Raises PipelineError."""
    given = {name.lower(): value for name, value in options.items()}
    given = {name: value for name, value in given.items() if name.startswith(_SECURITY_OPTIONS)}
    unknown = sorted(given.keys() - _KNOWN)
    if unknown:
        raise PipelineError(
            f"--kafka-option {unknown[0]}: the job's own requests cannot use it; they know "
            f"{', '.join(sorted(_KNOWN))}",
            ExitCode.USAGE,
        )
    try:
        return connection_settings(
            {name.removeprefix(_PREFIX): value for name, value in given.items()}
        )
    except ClientError as error:
        raise PipelineError(f"--kafka-option kafka.{error.sentence}", ExitCode.USAGE) from error


def connector_security(settings: ConnectionSettings) -> dict[str, str]:
    """Return options of the connector that say the same as these settings; reads files that Java
    wants in another form. Raises PipelineError.
    """
    found = {}
    if settings.login is not None or settings.tls is not None:
        found["security.protocol"] = settings.protocol
    if settings.login is not None:
        found |= _login(settings.login)
    if settings.tls is not None:
        found |= _trust(settings.tls) | _own(settings.tls)
    return {f"{_PREFIX}{name}": value for name, value in found.items()}


def _login(login: Login) -> dict[str, str]:
    if login.tokens is not None:
        raise PipelineError(
            f"sasl.mechanism={login.mechanism}: jobs do not log in by tokens; give a user of PLAIN "
            "or SCRAM",
            ExitCode.USAGE,
        )
    kind = "plain.PlainLoginModule" if login.mechanism == "PLAIN" else "scram.ScramLoginModule"
    username, password = (
        text.replace("\\", "\\\\").replace('"', '\\"') for text in (login.username, login.password)
    )
    return {
        "sasl.mechanism": login.mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{kind} required "
        f'username="{username}" password="{password}";',
    }


def _trust(tls: Tls) -> dict[str, str]:
    if not tls.checks_certificate:
        raise PipelineError(
            "enable.ssl.certificate.verification=false: Spark's connector always checks "
            "certificates; give the one of the broker with ssl.ca.location=FILE",
            ExitCode.USAGE,
        )
    found = {} if tls.checks_host_name else {"ssl.endpoint.identification.algorithm": ""}
    if tls.ca_text is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": tls.ca_text}
    elif tls.ca_file is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": tls.ca_file}
    return found


def _own(tls: Tls) -> dict[str, str]:
    """Return the client's own key and certificate: Java wants both in one file, or as text."""
    found = {} if tls.key_password is None else {"ssl.key.password": tls.key_password}
    chain, key = tls.certificate_text, tls.key_text
    if tls.certificate_file is not None and tls.key_file is not None:
        chain, key = _text(tls.certificate_file), _text(tls.key_file)
    if chain is not None and key is not None:
        return found | {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": chain,
            "ssl.keystore.key": key,
        }
    if tls.certificate_file is not None:
        return found | {"ssl.keystore.type": "PEM", "ssl.keystore.location": tls.certificate_file}
    return found


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{file} cannot be read: {error}", ExitCode.USAGE) from error
