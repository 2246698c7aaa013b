"""ZkAccess: the proofs that a session on a ZooKeeper gives, and whom its nodes are for.

Law: what is set is acted on or refused, by the whole name of the setting, without a part of a
secret. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kbroker.config.config_values import invalid_value
from kbroker.config.jaas import parse_jaas
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.tls_settings import (
    VERSIONS,
    ClientTls,
    Pem,
    conversion,
    versions_and_suites,
)
from kbroker.errors import ConfigError

_JAAS, _DIGEST = "kbroker.zookeeper.jaas.config", "kbroker.zookeeper.digest"
_MODULE = "DigestLoginModule"
_SSL = "zookeeper.ssl."
_TYPES = {"P12": "PKCS12", "PFX": "PKCS12"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A name and its password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkAccess:
    """The way into an ensemble: plain and open without any of these."""

    tls: ClientTls | None = None
    sasl: Credentials | None = None  # by DIGEST-MD5
    digest: Credentials | None = None  # by ZooKeeper's own scheme of this name
    sets_acl: bool = False  # nodes are made with Kafka's rights, instead of for everybody


def zk_access(config: KafkaConfig) -> ZkAccess:
    """The access that the settings give to `zookeeper.connect`. Raises ConfigError."""
    access = ZkAccess(
        tls=_tls(config) if config.zk.zookeeper_ssl_client_enable else None,
        sasl=_sasl(config.kbroker.kbroker_zookeeper_jaas_config),
        digest=_digest(config.kbroker.kbroker_zookeeper_digest),
        sets_acl=config.zk.zookeeper_set_acl,
    )
    has_login = access.sasl or access.digest or (access.tls is not None and access.tls.own)
    if access.sets_acl and not has_login:
        raise ConfigError(
            "zookeeper.set.acl=true needs a login, or nobody could read the nodes: the section "
            f"Client of the JAAS file that KAFKA_OPTS names, {_JAAS}, {_DIGEST}, or "
            f"{_SSL}client.enable=true with {_SSL}keystore.location"
        )
    return access


def _sasl(jaas: str | None) -> Credentials | None:
    if not jaas:
        return None
    try:
        modules = parse_jaas(jaas)
    except ValueError as error:
        raise ConfigError(f"{_JAAS} cannot be read: {error}") from error
    if len(modules) != 1 or modules[0].class_name != _MODULE:
        raise ConfigError(
            f"{_JAAS} takes one {_MODULE}: others, such as Kerberos's, are not served"
        )
    options = modules[0].options
    username, password = options.get("username"), options.get("password")
    if not username or not password:
        raise ConfigError(f'{_JAAS} needs username="..." and password="..." of its {_MODULE}')
    if not (username + password).isascii():  # no two programs agree on the bytes of others
        raise ConfigError(f"{_JAAS} has characters beyond ASCII in username or password")
    return Credentials(username=username, password=password)


def _digest(text: str | None) -> Credentials | None:
    if not text:
        return None
    username, _, password = text.partition(":")
    if not username or not password:
        raise ConfigError(f"{_DIGEST} is not USER:PASSWORD")
    return Credentials(username=username, password=password)


def _tls(config: KafkaConfig) -> ClientTls:
    zk = config.zk
    for name in ("crl", "ocsp"):
        if config.value(f"{_SSL}{name}.enable"):
            raise invalid_value(f"{_SSL}{name}.enable", "true", "no such check is served")
    own, trusted = _store(config, "key"), _store(config, "trust")
    versions, of_1_2, of_1_3 = versions_and_suites(
        _versions(config),
        (f"{_SSL}cipher.suites", zk.zookeeper_ssl_cipher_suites or ()),
    )
    return ClientTls(
        own=own,
        key_password=zk.zookeeper_ssl_keystore_password,
        key_password_setting=f"{_SSL}keystore.password",
        trusted=trusted,
        checks_host_name=zk.zookeeper_ssl_endpoint_identification_algorithm.upper() == "HTTPS",
        versions=versions,
        suites_of_1_2=of_1_2,
        suites_of_1_3=of_1_3,
    )


def _versions(config: KafkaConfig) -> tuple[str, tuple[str, ...]]:
    """The versions asked for, by the setting that does. Kafka's default, TLS 1.2 alone, stands for
    all: ZooKeeper 3.9 takes 1.3 alone, unless it is set otherwise.
    """
    enabled, protocol = f"{_SSL}enabled.protocols", f"{_SSL}protocol"
    if config.zk.zookeeper_ssl_enabled_protocols:
        return enabled, config.zk.zookeeper_ssl_enabled_protocols
    if protocol in config.texts:
        return protocol, (config.zk.zookeeper_ssl_protocol,)
    return enabled, VERSIONS


def _store(config: KafkaConfig, kind: Literal["key", "trust"]) -> Pem | None:
    name = f"{_SSL}{kind}store.location"
    location = config.value(name)
    if not location:
        return None
    file = str(location)
    # Without a type, ZooKeeper goes by the end of the name.
    ending = file.rpartition(".")[2].upper()
    store_type = str(config.value(f"{_SSL}{kind}store.type") or _TYPES.get(ending, ending))
    if store_type.upper() != "PEM":
        raise invalid_value(name, file, conversion(file, store_type, kind, name))
    return Pem(setting=name, file=file)
