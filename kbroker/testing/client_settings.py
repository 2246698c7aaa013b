"""The settings with which a client library reaches a test's broker, by TLS and as a user."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MECHANISM = "SCRAM-SHA-512"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class Access:
    """The address of a broker, and what a client needs to come in: the file `ca` with the authority
    to trust, None without TLS, and the passwords of `users`.
    """

    bootstrap: str
    ca: str | None
    users: Mapping[str, str] = field(repr=False)
    directory: str  # for files that clients read

    @property
    def protocol(self) -> str:
        """The security protocol by Kafka's name."""
        transport = "PLAINTEXT" if self.ca is None else "SSL"
        return f"SASL_{transport}" if self.users else transport

    def client(self, user: str | None, library: str) -> Any:
        """Return the settings of a library for a user, None if there are no users: a dictionary,
        and for kcat a list of arguments. Raises ValueError for a user or library that is not
        there.
        """
        make = _LIBRARIES.get(library)
        if make is None:
            raise ValueError(f"{library!r} is not one of {', '.join(_LIBRARIES)}")
        if (user is None) == bool(self.users) or (user is not None and user not in self.users):
            there = ", ".join(self.users) or "none: give None"
            raise ValueError(f"{user!r} is not a user of this broker, which has {there}")
        return make(self, user)


def _of_librdkafka(access: Access, user: str | None) -> dict[str, Any]:
    settings = {"bootstrap.servers": access.bootstrap, "security.protocol": access.protocol}
    if access.ca is not None:
        settings["ssl.ca.location"] = access.ca
    if user is not None:
        settings |= {
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": access.users[user],
        }
    return settings


def _of_kafka_python(access: Access, user: str | None) -> dict[str, Any]:
    settings = {"bootstrap_servers": access.bootstrap, "security_protocol": access.protocol}
    if access.ca is not None:
        settings["ssl_cafile"] = access.ca
    return settings | _python_login(access, user)


def _of_aiokafka(access: Access, user: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": access.bootstrap,
        "security_protocol": access.protocol,
    }
    if access.ca is not None:
        import ssl

        settings["ssl_context"] = ssl.create_default_context(cafile=access.ca)
    return settings | _python_login(access, user)


def _python_login(access: Access, user: str | None) -> dict[str, str]:
    if user is None:
        return {}
    return {
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": user,
        "sasl_plain_password": access.users[user],
    }


def _of_java(access: Access, user: str | None) -> dict[str, str]:
    settings = {"bootstrap.servers": access.bootstrap, "security.protocol": access.protocol}
    if access.ca is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": access.ca}
    if user is not None:
        login = f"username={quoted(user)} password={quoted(access.users[user])}"
        settings |= {
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f"{_SCRAM_MODULE} required {login};",
        }
    return settings


def _of_kcat(access: Access, user: str | None) -> list[str]:
    """Passwords are in a file, as everybody on a machine sees the arguments of programs."""
    lines = "".join(f"{name}={text}\n" for name, text in _of_librdkafka(access, user).items())
    path = Path(access.directory, f"{(user or 'kcat').encode().hex()}.kcat")
    if not path.exists():
        half = path.with_suffix(f".{os.getpid()}")  # workers of pytest-xdist share the directory
        half.write_text(lines, encoding="utf-8")
        half.rename(path)
    return ["-F", str(path)]


def quoted(text: str) -> str:
    """The text as a value in a JAAS entry."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_LIBRARIES: Mapping[str, Callable[[Access, str | None], Any]] = {
    "confluent-kafka": _of_librdkafka,
    "kafka-python": _of_kafka_python,
    "aiokafka": _of_aiokafka,
    "java": _of_java,
    "kcat": _of_kcat,
}
