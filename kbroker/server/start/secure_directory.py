"""The directory of `kbroker start --secure`: certificates, and the login of the first user.

    ca.pem, ca.key, broker.pem      as `kbroker cert make` makes them
    admin.properties                the login of `admin`, for --command-config and Java's clients

The admin may do everything, and others what rules allow.

Law: what is there is used as it is; what is missing is made, unless the rest shows that the
directory is of something else.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from kbroker.certificates.certificate_directory import (
    AUTHORITY,
    BROKER,
    CertificateDirectory,
    CertificateDirectoryError,
    make_certificates,
    trust_properties,
)
from kbroker.certificates.certificate_files import certificates_of
from kbroker.config.authorizer_settings import AUTHORIZER, KAFKAS_AUTHORIZERS
from kbroker.config.foreign_settings import SUPER_USERS
from kbroker.config.jaas import parse_jaas
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.listener_overrides import listener_prefix
from kbroker.config.properties_file import parse_properties
from kbroker.ip_addresses import EVERYWHERE

ADMIN_FILE = "admin.properties"
DEFAULT_ADDRESSES = ("127.0.0.1:9092",)
_ADMIN = "admin"
_LISTENER = "SASL_SSL"
_MECHANISM = "SCRAM-SHA-512"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PASSWORD_BYTES = 24
_DAYS = 730


class SecureDirectory(NamedTuple):
    """The settings of a start with the directory, and the files that a person is to know of."""

    settings: dict[str, str]  # by Kafka's names
    admin_file: str  # for --command-config; as the directory was named
    made: list[str]  # the files that were missing


def secure_directory(
    path: str,
    addresses: Sequence[str],
    *,
    hosts: Sequence[str],
    machine: str,
    now: datetime,
    written: Mapping[str, str] = MappingProxyType({}),
) -> SecureDirectory:
    """The settings of a broker that listens on these addresses with SASL_SSL. Its certificate is
    made for `hosts`, localhost and this `machine`, if it is not there. An authorizer and super
    users that are `written` elsewhere stay.

    Raises CertificateDirectoryError for a directory that is half, or of something else, and
    ConfigError if the extra is missing that makes certificates.
    """
    directory = CertificateDirectory(path)
    made = make_certificates(
        directory, hosts=hosts, machine=machine, clients=(), now=now, days=_DAYS
    )
    _check_signed(directory)
    if not directory.has(ADMIN_FILE):
        directory.write(ADMIN_FILE, _admin_properties(directory), is_secret=True)
        made.append(ADMIN_FILE)
    return SecureDirectory(
        _settings(directory, addresses, written),
        directory.path_of(ADMIN_FILE),
        made,
    )


def hosts_of_clients(config: KafkaConfig) -> list[str]:
    """The names and addresses of other machines' clients, as far as settings have them."""
    advertised = config.kbroker.kbroker_advertise or ""
    asked_for = config.http_end_points() if config.is_http_asked_for() else ()
    listeners = (*config.end_points(), *config.advertised_end_points(), *asked_for)
    hosts = [
        *(each.host for each in listeners),
        advertised.rpartition(":")[0].strip("[]"),
    ]
    return [each for each in dict.fromkeys(hosts) if each not in EVERYWHERE]


def _check_signed(directory: CertificateDirectory) -> None:
    """Raises CertificateDirectoryError if the broker's certificate is of another authority."""
    try:
        authority, *_ = certificates_of(directory.text_of(AUTHORITY))
        broker, *_ = certificates_of(directory.text_of(BROKER))
    except ValueError as error:
        raise CertificateDirectoryError(
            f"a certificate in {directory.path_of('')} cannot be read: {error}"
        ) from error
    if broker.issuer != authority.subject:
        raise CertificateDirectoryError(
            f"{directory.path_of(BROKER)} is not signed by {AUTHORITY}: its issuer is "
            f"{broker.issuer}"
        )


def _admin_properties(directory: CertificateDirectory) -> str:
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    return (
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanism={_MECHANISM}\n"
        f'sasl.jaas.config={_MODULE} required username="{_ADMIN}" password="{password}";\n'
        f"{trust_properties(directory.text_of(AUTHORITY))}"
    )


def _admin_login(directory: CertificateDirectory) -> tuple[str, str]:
    """The login of the admin: as JAAS has it, and as NAME:PASSWORD. Raises
    CertificateDirectoryError.
    """
    jaas = parse_properties(directory.text_of(ADMIN_FILE)).get("sasl.jaas.config", "")
    try:
        (module,) = parse_jaas(jaas)
        return jaas, f"{module.options['username']}:{module.options['password']}"
    except (ValueError, KeyError) as error:
        raise CertificateDirectoryError(
            f"{directory.path_of(ADMIN_FILE)} has no sasl.jaas.config with a username and a "
            "password: remove it to make another"
        ) from error


def listeners_at(addresses: Sequence[str], protocol: str) -> dict[str, str]:
    """The settings of listeners that are called SASL_SSL, SASL_SSL2 and so on."""
    names = [_LISTENER, *(f"{_LISTENER}{number}" for number in range(2, len(addresses) + 1))]
    pairs = zip(names, addresses, strict=True)
    return {
        "listeners": ",".join(f"{name}://{address}" for name, address in pairs),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name in names),
        "inter.broker.listener.name": _LISTENER,
    }


def _settings(
    directory: CertificateDirectory, addresses: Sequence[str], written: Mapping[str, str]
) -> dict[str, str]:
    jaas, first_user = _admin_login(directory)
    admin = f"User:{first_user.partition(':')[0]}"  # brokers log in so, too
    here = os.getcwd()  # a path in settings does not depend on it
    return {
        **listeners_at(addresses, "SASL_SSL"),
        "sasl.enabled.mechanisms": _MECHANISM,
        "sasl.mechanism.inter.broker.protocol": _MECHANISM,
        f"{listener_prefix(_LISTENER, _MECHANISM)}sasl.jaas.config": jaas,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": os.path.join(here, directory.path_of(BROKER)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": os.path.join(here, directory.path_of(AUTHORITY)),
        "kbroker.first.user": first_user,
        AUTHORIZER: written.get(AUTHORIZER, KAFKAS_AUTHORIZERS[0]),
        SUPER_USERS: ";".join(filter(None, [written.get(SUPER_USERS, "").rstrip(";"), admin])),
    }
