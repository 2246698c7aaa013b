"""TlsSettings: all that one listener's TLS is made of, checked as far as no file has to be read.

Law: what Kafka 3.9 refuses is refused, by the whole name of the setting, with its value unless that
is a secret, and with what mends it. Key stores that only Java reads are refused with the commands
that convert them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

from kbroker.config.config_values import invalid_value
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.pem_text import certificates_in, private_key_in
from kbroker.config.principal_rules import PrincipalRules, parse_principal_rules
from kbroker.config.tls_suites import OPENSSL_NAMES, SUITES_OF_TLS_1_3
from kbroker.errors import ConfigError
from kbroker.near_names import did_you_mean

ClientAuth = Literal["none", "requested", "required"]
VERSIONS = ("TLSv1.2", "TLSv1.3")
_ENGINE = "ssl.engine.factory.class"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """Certificates, or a key with its own, in PEM form: a file that has all of it, or texts."""

    setting: str = field(default="", compare=False)  # that names it, for refusals
    file: str | None = None
    certificates: str | None = None
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The TLS of one listener. Its suites are those of TLS 1.2 by OpenSSL's names, strongest wish
    first, and those of TLS 1.3; empty tuples leave the choice to the library.
    """

    own: Pem
    key_password: str | None = field(repr=False)
    key_password_setting: str
    trusted: Pem | None  # None only if no client is asked for a certificate
    client_auth: ClientAuth
    versions: tuple[str, ...]  # of TLSv1.2 and TLSv1.3, in this order
    suites_of_1_2: tuple[str, ...]
    suites_of_1_3: tuple[str, ...]
    principal_rules: PrincipalRules


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """TLS towards servers of one kind. Suites are as in TlsSettings."""

    own: Pem | None  # with its key
    key_password: str | None = field(repr=False)
    key_password_setting: str
    trusted: Pem | None  # None: whom the system trusts
    checks_host_name: bool
    versions: tuple[str, ...]
    suites_of_1_2: tuple[str, ...]
    suites_of_1_3: tuple[str, ...]


class _Settings:
    """The settings of one listener with the names that they are set by."""

    def __init__(self, config: KafkaConfig, listener: str) -> None:
        self._config, self._listener = config, listener

    @property
    def has_logins(self) -> bool:
        return any(
            each.listener_name == self._listener and each.security_protocol == "SASL_SSL"
            for each in self._config.end_points()
        )

    def name(self, base: str) -> str:
        return self._config.listener_setting(base, self._listener)[0]

    def text(self, base: str) -> str | None:
        """The text in force; None also for an empty one."""
        return cast("str | None", self._config.listener_setting(base, self._listener)[1]) or None

    def texts(self, base: str) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self._config.listener_setting(base, self._listener)[1])


def tls_settings(config: KafkaConfig, listener: str) -> TlsSettings:
    """The TLS settings of a listener, by its name. Raises ConfigError with a sentence."""
    settings = _Settings(config, listener)
    if settings.text(_ENGINE) is not None:
        raise ConfigError(
            f"{settings.name(_ENGINE)} is of Java: kbroker has TLS of its own, unset it"
        )
    client_auth = _client_auth(settings)
    trusted = _trusted(settings)
    if client_auth != "none" and trusted is None:
        raise ConfigError(
            f"{settings.name('ssl.client.auth')}={client_auth} needs the authority of the clients' "
            f"certificates: set {settings.name('ssl.truststore.location')} to a PEM file, and "
            f"{settings.name('ssl.truststore.type')}=PEM"
        )
    versions, of_1_2, of_1_3 = _versions_and_suites(settings)
    rules = settings.text("ssl.principal.mapping.rules") or ""
    return TlsSettings(
        own=_own(settings),
        key_password=settings.text("ssl.key.password"),
        key_password_setting=settings.name("ssl.key.password"),
        trusted=trusted,
        client_auth=client_auth,
        versions=versions,
        suites_of_1_2=of_1_2,
        suites_of_1_3=of_1_3,
        principal_rules=parse_principal_rules(rules, settings.name("ssl.principal.mapping.rules")),
    )


def peer_tls(config: KafkaConfig, listener: str) -> ClientTls:
    """The TLS by which a broker connects to the listener of that name of other brokers: what it
    would show and trust at its own. Raises ConfigError with a sentence.
    """
    own = tls_settings(config, listener)
    return ClientTls(
        own=own.own,
        key_password=own.key_password,
        key_password_setting=own.key_password_setting,
        trusted=own.trusted,
        checks_host_name=_checks_host_name(_Settings(config, listener)),
        versions=own.versions,
        suites_of_1_2=own.suites_of_1_2,
        suites_of_1_3=own.suites_of_1_3,
    )


def _checks_host_name(settings: _Settings) -> bool:
    base = "ssl.endpoint.identification.algorithm"
    algorithm = settings.text(base)
    if algorithm is not None and algorithm.lower() != "https":
        raise invalid_value(
            settings.name(base), algorithm, "set https, or nothing to check no host names"
        )
    return algorithm is not None


def _client_auth(settings: _Settings) -> ClientAuth:
    """A listener with logins asks for certificates by a setting of its own only (KIP-684)."""
    base = "ssl.client.auth"
    if settings.has_logins and settings.name(base) == base:
        return "none"
    return cast("ClientAuth", settings.text(base))


def _own(settings: _Settings) -> Pem:
    """The broker's key and certificates."""
    key, chain = "ssl.keystore.key", "ssl.keystore.certificate.chain"
    file = _store(settings, "key", (key, chain))
    if file is not None:
        return Pem(setting=settings.name("ssl.keystore.location"), file=file)
    for one, other in ((key, chain), (chain, key)):
        if settings.text(one) is not None and settings.text(other) is None:
            raise ConfigError(
                f"{settings.name(one)} and {settings.name(other)} belong together: set both"
            )
    if settings.text(key) is None:
        raise ConfigError(
            f"TLS needs a key and its certificate: set {settings.name('ssl.keystore.location')} to "
            f"a PEM file with both, and {settings.name('ssl.keystore.type')}=PEM"
        )
    return Pem(
        setting=settings.name(key),
        certificates=_pem(settings, chain, certificates_in),
        key=_pem(settings, key, private_key_in),
    )


def _trusted(settings: _Settings) -> Pem | None:
    certificates = "ssl.truststore.certificates"
    file = _store(settings, "trust", (certificates,))
    if file is not None:
        return Pem(setting=settings.name("ssl.truststore.location"), file=file)
    text = _pem(settings, certificates, certificates_in)
    return None if text is None else Pem(setting=settings.name(certificates), certificates=text)


def _pem(settings: _Settings, base: str, part: Callable[[str], str]) -> str | None:
    """The part of a PEM text that belongs there; None if there is no text."""
    text = settings.text(base)
    try:
        return None if text is None else part(text)
    except ValueError as error:
        raise ConfigError(f"{settings.name(base)} cannot be used: {error}") from error


def _store(
    settings: _Settings, kind: Literal["key", "trust"], texts: tuple[str, ...]
) -> str | None:
    """The file of a store, which is of PEM and excludes texts; None without one."""
    base = f"ssl.{kind}store."
    file, store_type = settings.text(f"{base}location"), settings.text(f"{base}type") or "JKS"
    location_name, type_name = settings.name(f"{base}location"), settings.name(f"{base}type")
    is_pem = store_type.upper() == "PEM"
    given = [each for each in texts if settings.text(each) is not None]
    if given and not is_pem:
        raise invalid_value(
            type_name, store_type, f"{settings.name(given[0])} is set, which is of PEM: set PEM"
        )
    if given and file is not None:
        raise ConfigError(
            f"{location_name} and {settings.name(given[0])} exclude each other: remove one"
        )
    if file is not None and not is_pem:
        raise invalid_value(
            type_name, store_type, conversion(file, store_type, kind, location_name)
        )
    if settings.text(f"{base}password") is not None and is_pem:
        own = f": {settings.name('ssl.key.password')} is the key's" if kind == "key" else ""
        raise ConfigError(
            f"{settings.name(f'{base}password')} is set, but PEM has no such password: "
            f"remove it{own}"
        )
    return file


def conversion(
    file: str, store_type: str, kind: Literal["key", "trust"], location_name: str
) -> str:
    """The commands that make a PEM file of a store which only Java reads."""
    stem = file.rpartition(".")[0] or file
    if kind == "trust":
        return (
            f"{file} is read by Java only: `keytool -list -rfc -keystore {file} > {stem}.pem` "
            f"makes a file for {location_name} with type PEM; if it is one already, set the type "
            "to PEM"
        )
    first, source = "", file
    if store_type.upper() != "PKCS12":
        source = f"{stem}.p12"
        first = (
            f"`keytool -importkeystore -srckeystore {file} -destkeystore {source} "
            f"-deststoretype PKCS12` and "
        )
    return (
        f"{file} is read by Java only: {first}`openssl pkcs12 -in {source} -nodes -out {stem}.pem` "
        f"make a file for {location_name} with type PEM; if it is one already, set the type to PEM"
    )


def _versions_and_suites(
    settings: _Settings,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    name, suites_name = "ssl.enabled.protocols", "ssl.cipher.suites"
    return versions_and_suites(
        (settings.name(name), settings.texts(name)),
        (settings.name(suites_name), settings.texts(suites_name)),
    )


def versions_and_suites(
    asked: tuple[str, tuple[str, ...]], suites: tuple[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The versions of TLS that have a suite, and the suites of each; of two settings, each with its
    name. Raises ConfigError.
    """
    name, suites_name = asked[0], suites[0]
    for version in asked[1]:
        if version not in VERSIONS:
            raise invalid_value(name, version, f"only {' and '.join(VERSIONS)} are served")
    versions = tuple(each for each in VERSIONS if each in asked[1]) or VERSIONS
    for suite in suites[1]:
        if suite not in OPENSSL_NAMES and suite not in SUITES_OF_TLS_1_3:
            hint = did_you_mean(suite, [*OPENSSL_NAMES, *SUITES_OF_TLS_1_3], shown=1)
            raise invalid_value(suites_name, suite, f"no such suite is served{hint}")
    if not suites[1]:
        return versions, (), ()
    of_1_2 = tuple(OPENSSL_NAMES[each] for each in suites[1] if each in OPENSSL_NAMES)
    of_1_3 = tuple(each for each in suites[1] if each in SUITES_OF_TLS_1_3)
    if "TLSv1.3" in versions and of_1_3 and SUITES_OF_TLS_1_3[0] not in of_1_3:
        # Python's ssl cannot choose among them: OpenSSL takes its first if the client has it.
        reason = f"of TLS 1.3 name {SUITES_OF_TLS_1_3[0]} too, or none"
        raise invalid_value(suites_name, ",".join(suites[1]), reason)
    has_suite = {"TLSv1.2": bool(of_1_2), "TLSv1.3": bool(of_1_3)}
    usable = tuple(each for each in versions if has_suite[each])
    if not usable:
        raise invalid_value(
            suites_name, ",".join(suites[1]), f"none is of {' or '.join(versions)}, see {name}"
        )
    return usable, of_1_2, of_1_3
