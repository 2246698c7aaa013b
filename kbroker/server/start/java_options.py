"""KAFKA_OPTS as a broker understands it: the properties of Java (`-DNAME=VALUE`) by which Apache
Kafka's users name TLS and logins, above all towards ZooKeeper. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kbroker.config.jaas import LoginModule, parse_jaas_file
from kbroker.config.listener_overrides import listener_prefix
from kbroker.config.sasl_settings import LOGIN_MODULES
from kbroker.errors import ConfigError

_LOGINS = "java.security.auth.login.config"
_CHECKS_NAME = "zookeeper.ssl.hostnameVerification"
_LISTENERS = "KafkaServer"
_LOGS_IN, _SECTION = "zookeeper.sasl.client", "zookeeper.sasl.clientconfig"
_OF_ZOOKEEPER = {
    "zookeeper.client.secure": "zookeeper.ssl.client.enable",
    "zookeeper.clientCnxnSocket": "zookeeper.clientCnxnSocket",
    **{
        f"zookeeper.ssl.{store}Store.{part}": f"zookeeper.ssl.{store}store.{part}"
        for store in ("key", "trust")
        for part in ("location", "password", "type")
    },
    "zookeeper.ssl.protocol": "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabledProtocols": "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.ciphersuites": "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.crl": "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.ocsp": "zookeeper.ssl.ocsp.enable",
}
Sections = Mapping[str, tuple[LoginModule, ...]]

_KNOWN = {*_OF_ZOOKEEPER, _LOGINS, _CHECKS_NAME, _LOGS_IN, _SECTION}


@dataclass(frozen=True, slots=True)
class JavaOptions:
    """The properties by name, and the names of all options that mean nothing to a broker."""

    properties: Mapping[str, str] = field(repr=False)
    ignored: tuple[str, ...]

    @property
    def login_file(self) -> str | None:
        """The path of the file with logins; None if there is none."""
        # Java takes a second = for: instead of all other files; and the name as a URL.
        path = self.properties.get(_LOGINS, "").removeprefix("=").removeprefix("file:")
        return path or None

    def settings(self) -> dict[str, str]:
        """The settings that the properties stand for, without those that come of logins."""
        found = {
            name: self.properties[each]
            for each, name in _OF_ZOOKEEPER.items()
            if each in self.properties
        }
        if _CHECKS_NAME in self.properties:
            checks = _is_true(self.properties[_CHECKS_NAME])
            found["zookeeper.ssl.endpoint.identification.algorithm"] = "HTTPS" if checks else ""
        return found

    def settings_of_logins(self, text: str, sasl_listeners: Iterable[str]) -> dict[str, str]:
        """The settings that stand for a file of logins, at ZooKeeper and of these listeners. Raises
        ConfigError without a part of it.
        """
        try:
            sections = parse_jaas_file(text)
        except ValueError as error:
            raise ConfigError(f"{self.login_file} ({_LOGINS}) cannot be read: {error}") from error
        found: dict[str, str] = {}
        for listener in sasl_listeners:
            found |= _settings_of_listener(listener, sections)
        modules = sections.get(self.properties.get(_SECTION, "Client"), ())
        if modules and _is_true(self.properties.get(_LOGS_IN, "true")):
            text = " ".join(module.text() for module in modules)
            found["kbroker.zookeeper.jaas.config"] = text
        return found


def _settings_of_listener(listener: str, sections: Sections) -> dict[str, str]:
    """The logins of each mechanism of a listener, which may have a section of its own."""
    own = sections.get(f"{listener.lower()}.{_LISTENERS}", sections.get(_LISTENERS, ()))
    return {
        f"{listener_prefix(listener, mechanism)}sasl.jaas.config": module.text()
        for module in reversed(own)  # the first one counts
        for mechanism, class_name in LOGIN_MODULES.items()
        if class_name == module.class_name
    }


def parse_java_options(text: str) -> JavaOptions:
    """The options in the text, which is split as a shell does it."""
    try:
        words = shlex.split(text)
    except ValueError:  # a quote without its end
        words = text.split()
    properties, ignored = {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if name.removeprefix("-D") in _KNOWN and name.startswith("-D") and equals:
            properties[name[2:]] = value
        else:
            ignored.append(name)
    return JavaOptions(properties, tuple(ignored))


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"
