"""ConnectionSettings: how to connect to brokers, read from properties of Kafka's clients, Java's
and librdkafka's.

Pure: files are only named here, and read when a connection is made. No sentence holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbroker.client.client_error import ClientError
from kbroker.client.exit_code import ExitCode
from kbroker.client.property_names import (
    OTHER_FAMILIES,
    OTHER_NAMES,
    SECURITY_FAMILIES,
    SECURITY_NAMES,
    TOKEN_NAMES,
)
from kbroker.model import SECURITY_PROTOCOLS
from kbroker.near_names import did_you_mean
from kbroker.sasl.login import Login

if TYPE_CHECKING:
    from ssl import SSLContext

CLIENT_ID = "kbroker-cli"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
BOOTSTRAP = "bootstrap.servers"

_PROTOCOL, _MECHANISM = "security.protocol", "sasl.mechanism"
_JAAS, _USERNAME, _PASSWORD = "sasl.jaas.config", "sasl.username", "sasl.password"
_DELEGATION = "tokenauth"  # in the JAAS entry: the name is that of a delegation token
_CA_FILE, _CA_TEXT = "ssl.ca.location", "ssl.ca.pem"
_TRUST_FILE, _TRUST_TYPE = "ssl.truststore.location", "ssl.truststore.type"
_CERTIFICATE_FILE, _CERTIFICATE_TEXT = "ssl.certificate.location", "ssl.certificate.pem"
_KEY_FILE, _KEY_TEXT, _KEY_PHRASE = "ssl.key.location", "ssl.key.pem", "ssl.key.password"
_STORE_FILE, _STORE_TYPE = "ssl.keystore.location", "ssl.keystore.type"
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_CHECK = "enable.ssl.certificate.verification"
_CLIENT_ID = "client.id"
_REQUEST_MS, _CONNECT_MS = "request.timeout.ms", "socket.connection.setup.timeout.ms"

_OTHER_SPELLINGS = {
    "metadata.broker.list": BOOTSTRAP,
    "sasl.mechanisms": _MECHANISM,
    "socket.timeout.ms": _REQUEST_MS,
    "ssl.keystore.certificate.chain": _CERTIFICATE_TEXT,
    "ssl.keystore.key": _KEY_TEXT,
    "ssl.truststore.certificates": _CA_TEXT,
}
# PEM files have no such passwords; a store of another type is refused.
_PASSWORDS_OF_STORES = {"ssl.keystore.password", "ssl.truststore.password"}
_NAMES = {
    BOOTSTRAP, _PROTOCOL, _MECHANISM, _JAAS, _USERNAME, _PASSWORD, _CA_FILE, _CA_TEXT, _TRUST_FILE,
    _TRUST_TYPE, _CERTIFICATE_FILE, _CERTIFICATE_TEXT, _KEY_FILE, _KEY_TEXT, _KEY_PHRASE,
    _STORE_FILE, _STORE_TYPE, _HOST_CHECK, _CHECK, _CLIENT_ID, _REQUEST_MS, _CONNECT_MS,
} | _PASSWORDS_OF_STORES  # fmt: skip
_LOGIN_MODULES = ("PlainLoginModule", "ScramLoginModule")
_NAME = re.compile(r"[a-z][a-z0-9._-]*")

# They ask for TLS or a login, and have no effect without a protocol.
_WANT_PROTOCOL = (
    _JAAS, _USERNAME, _PASSWORD, _CA_FILE, _CA_TEXT, _TRUST_FILE, _CERTIFICATE_FILE,
    _CERTIFICATE_TEXT, _STORE_FILE, _KEY_FILE, _KEY_TEXT,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Trusted certificates (`ca_`), and the certificate and key of this client, as PEM files or
    texts. Without a `ca_` the system's are trusted; without a `key_` the key is in the certificate
    file.
    """

    ca_file: str | None = None
    ca_text: str | None = None
    certificate_file: str | None = None
    certificate_text: str | None = None
    key_file: str | None = None
    key_text: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_certificate: bool = True
    checks_host_name: bool = True
    context: SSLContext | None = field(default=None, repr=False)  # wins over all of the above


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """TLS, login, client id and time-outs in seconds; None: the caller's default."""

    tls: Tls | None = None
    login: Login | None = None
    client_id: str | None = None
    request_timeout_s: float | None = None
    connect_timeout_s: float | None = None

    @property
    def protocol(self) -> str:
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        return transport if self.login is None else f"SASL_{transport}"


UNSECURED = ConnectionSettings()


def with_one_spelling(given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with one name for each meaning."""
    return {_OTHER_SPELLINGS.get(name, name): value for name, value in given.items()}


def check_names(names: Iterable[str], place: str) -> None:
    """Refuse names that no Kafka client knows. `place` says where they were given."""
    for name in names:
        known = name in OTHER_NAMES or name.startswith(OTHER_FAMILIES) or _is_security(name)
        if known or name in _NAMES or name in _OTHER_SPELLINGS:
            continue
        every = [*_NAMES, *_OTHER_SPELLINGS, *OTHER_NAMES, *SECURITY_NAMES]
        hint = did_you_mean(name, every, shown=1)
        if not hint and not _NAME.fullmatch(name):  # a password, or a line of a key
            raise _refusal(f"{place}: a line does not begin with a property name: give NAME=VALUE")
        hint = hint or ": Kafka's clients have no such property"
        raise _refusal(f"{place}: unknown property {name}{hint}")


def without_effect(names: Iterable[str]) -> list[str]:
    """Return the names that are about security, but that commands do not act on."""
    return sorted(name for name in names if _is_security(name) and name not in TOKEN_NAMES)


def connection_settings(given: Mapping[str, str]) -> ConnectionSettings:
    """Read the settings from properties. Raises ClientError with a sentence."""
    values = with_one_spelling(given)
    protocol = _protocol(values)
    return ConnectionSettings(
        tls=_tls(values) if protocol.endswith("SSL") else None,
        login=_login(values) if protocol.startswith("SASL_") else None,
        client_id=values.get(_CLIENT_ID),
        request_timeout_s=_seconds(values, _REQUEST_MS),
        connect_timeout_s=_seconds(values, _CONNECT_MS),
    )


def _protocol(values: Mapping[str, str]) -> str:
    protocol = values.get(_PROTOCOL, "").strip().upper()
    if not protocol:
        for name in _WANT_PROTOCOL:
            if name in values:
                likely = "SASL_SSL" if name.startswith("sasl.") else "SSL"
                raise _refusal(
                    f"{name} has no effect without {_PROTOCOL}: add {_PROTOCOL}={likely}"
                )
        return SECURITY_PROTOCOLS[0]
    if protocol not in SECURITY_PROTOCOLS:
        raise _refusal(f"{_PROTOCOL}={protocol}: give one of {', '.join(SECURITY_PROTOCOLS)}")
    return protocol


def _login(values: Mapping[str, str]) -> Login:
    choice = f"{', '.join(MECHANISMS[:-1])} or {MECHANISMS[-1]}"
    mechanism = values.get(_MECHANISM, "").strip().upper()
    if not mechanism:
        raise _refusal(f"{_MECHANISM} is missing: give {choice}")
    if mechanism not in MECHANISMS:
        raise _refusal(f"{_MECHANISM}={mechanism} is not supported: give {choice}")
    if mechanism == MECHANISMS[-1]:
        from kbroker.client.token_settings import token_settings  # few commands log in by it

        return token_settings(values, values.get(_JAAS))
    fields = jaas_fields(values[_JAAS]) if _JAAS in values else {}
    if fields is None:
        kind = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        raise _refusal(
            f"{_JAAS} cannot be read: write 'org.apache.kafka.common.security.{kind} required "
            'username="NAME" password="PASSWORD";\''
        )
    username = values.get(_USERNAME, fields.get("username"))
    password = values.get(_PASSWORD, fields.get("password"))
    if not username or password is None:
        missing = _USERNAME if not username else _PASSWORD
        raise _refusal(f"{missing} is missing: give it, or username and password in {_JAAS}")
    is_by_delegation = mechanism != "PLAIN" and fields.get(_DELEGATION, "").lower() == "true"
    return Login(
        mechanism=mechanism,
        username=username,
        password=password,
        is_by_delegation=is_by_delegation,
    )


def jaas_fields(text: str) -> dict[str, str] | None:
    """Return the fields of a PLAIN or SCRAM login in `sasl.jaas.config`; None if it is neither, or
    lacks a name or a password.

    >>> jaas_fields('a.PlainLoginModule required username="ann" password=secret;')
    {'username': 'ann', 'password': 'secret'}
    """
    from kbroker.config.jaas import parse_jaas  # few give their login so

    try:
        modules = parse_jaas(text)
    except ValueError:
        return None
    if len(modules) != 1 or not modules[0].class_name.endswith(_LOGIN_MODULES):
        return None
    fields = dict(modules[0].options)
    return fields if {"username", "password"} <= fields.keys() else None


def _tls(values: Mapping[str, str]) -> Tls:
    _check_type(values, _TRUST_FILE, _TRUST_TYPE, "-nokeys")
    _check_type(values, _STORE_FILE, _STORE_TYPE, "-nodes")
    certificate_file = values.get(_CERTIFICATE_FILE) or values.get(_STORE_FILE)
    if _KEY_FILE in values and not certificate_file:
        raise _refusal(f"{_KEY_FILE} needs the certificate of the key: give {_CERTIFICATE_FILE}")
    if (_KEY_TEXT in values) != (_CERTIFICATE_TEXT in values):
        raise _refusal(f"{_KEY_TEXT} and {_CERTIFICATE_TEXT} belong together: give both")
    checks_certificate = _flag(values, _CHECK)
    check = values.get(_HOST_CHECK, "https").strip().lower()
    if check not in ("https", "none", ""):
        raise _refusal(f"{_HOST_CHECK}={check}: give https, or none to switch the check off")
    return Tls(
        ca_file=values.get(_CA_FILE) or values.get(_TRUST_FILE),
        ca_text=values.get(_CA_TEXT),
        certificate_file=certificate_file,
        certificate_text=values.get(_CERTIFICATE_TEXT),
        key_file=values.get(_KEY_FILE),
        key_text=values.get(_KEY_TEXT),
        key_password=values.get(_KEY_PHRASE),
        checks_certificate=checks_certificate,
        checks_host_name=checks_certificate and check == "https",
    )


def _check_type(values: Mapping[str, str], file_name: str, type_name: str, flag: str) -> None:
    """Refuse stores that only Java reads; a file without a type is one for Java's clients."""
    store_type = values.get(type_name, "JKS").strip().upper()
    if file_name not in values or store_type == "PEM":
        return
    file = values[file_name]
    if store_type == "JKS":
        make = (
            f"export it with `keytool -importkeystore -srckeystore {file} -destkeystore store.p12 "
            f"-deststoretype PKCS12` and `openssl pkcs12 -in store.p12 {flag} -out store.pem`"
        )
    else:
        make = f"export it with `openssl pkcs12 -in {file} {flag} -out store.pem`"
    raise _refusal(
        f"{file_name}={file} counts as a store of type {store_type}, which is not supported: "
        f"{make}, and give the PEM file with {type_name}=PEM"
    )


def _flag(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name, "true").strip().lower()
    if text not in ("true", "false"):
        raise _refusal(f"{name}={text}: give true or false")
    return text == "true"


def _seconds(values: Mapping[str, str], name: str) -> float | None:
    text = values.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise _refusal(f"{name}={text}: give milliseconds, such as 30000")
    return int(text) / 1000


def _is_security(name: str) -> bool:
    return name in SECURITY_NAMES or name.startswith(SECURITY_FAMILIES)


def _refusal(sentence: str) -> ClientError:
    return ClientError(sentence, ExitCode.USAGE)
