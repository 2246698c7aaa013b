"""The settings and users of a test's broker that has TLS, or asks for logins.

Law: no password is an argument of a process: the child reads it in a file of its owner's, and users
of SCRAM are made once it listens. So are rules, before anybody gets the address.
"""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kbroker.testing.client_settings import Access, quoted

if TYPE_CHECKING:
    from kbroker.acl.rule_words import AclRule
    from kbroker.client.bootstrap import Bootstrap
    from kbroker.client.cluster_links import ClusterLinks

_OWN_USER = "kbroker-testing"  # adds the others, and is that of the brokers among themselves
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_MECHANISMS = "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN"
_ITERATIONS = 4_096  # Kafka's least: nobody tries to guess the passwords of a test
_DAYS = 30
_NOT_IN_NAMES = re.compile(r"""[\s"'=;,\x00-\x1f]""")  # of an option in JAAS
_NOT_IN_PASSWORDS = re.compile(r"[\x00-\x1f]")


class SecuredBroker:
    """The files of one broker, in a directory that only its owner can read."""

    def __init__(
        self,
        directory: Path,
        users: Mapping[str, str],
        *,
        has_tls: bool,
        rules: Sequence[AclRule] | None = None,
    ) -> None:
        """Without `rules`, also empty ones, users may do everything. Raises ValueError for a name
        or a password that cannot be one.
        """
        for user, password in users.items():
            if not user or user == _OWN_USER or _NOT_IN_NAMES.search(user):
                raise ValueError(
                    f"{user!r} cannot be a user: take a name without blanks, quotes, and =;,"
                )
            if not password or _NOT_IN_PASSWORDS.search(password):
                raise ValueError(f"the password of {user} is empty, or has control characters")
        self._directory = directory
        self._tls_directory = directory / "tls"
        self._users = dict(users)
        self._has_tls = has_tls
        self._rules = rules
        self._own_password = secrets.token_urlsafe(16)

    def settings_file(self, port: int) -> Path:
        """Make the certificates, and the file of settings that a broker is started with. Raises
        ExplainedError if certificates cannot be made.
        """
        protocol = self.access("").protocol
        settings = {
            "listeners": f"{protocol}://127.0.0.1:{port}",
            "security.inter.broker.protocol": protocol,
        }
        if self._users:
            settings |= {
                "sasl.enabled.mechanisms": _MECHANISMS,
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": self._jaas(),
            }
        if self._rules is not None:
            settings |= {
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": f"User:{_OWN_USER}",
            }
        if self._has_tls:
            self._make_certificates()
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._tls_directory / "broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._tls_directory / "ca.pem"),
            }
        path = self._directory / "broker.properties"
        lines = (f"{name}={_escaped(text)}\n" for name, text in settings.items())
        path.write_text("".join(lines), encoding="utf-8")
        return path

    def access(self, bootstrap: str) -> Access:
        """Return the way in for clients of the broker at this address."""
        ca = str(self._tls_directory / "ca.pem") if self._has_tls else None
        return Access(bootstrap, ca, self._users, str(self._directory))

    def admit(self, bootstrap: str) -> None:
        """Have the running broker let its users in by SCRAM too, and obey its rules. Raises
        ExplainedError, KafkaError and OSError.
        """
        if not self._users:
            return
        from kbroker.client.cluster_links import ClusterLinks

        with closing(ClusterLinks(self.own_way(bootstrap))) as links:
            self._add_users(links)
            if self._rules:
                from kbroker.client.access_rules import create_rules

                for refusal in create_rules(links, self._rules):
                    if refusal is not None:
                        raise refusal

    def _add_users(self, links: ClusterLinks) -> None:
        from kbroker.client.scram_users import altered_users, with_password
        from kbroker.protocol.messages.alter_user_scram_credentials import (
            AlterUserScramCredentialsRequest,
        )
        from kbroker.sasl.scram_keys import SCRAM_MECHANISMS

        request = AlterUserScramCredentialsRequest()
        for user, password in self._users.items():
            asked = with_password(user, password, SCRAM_MECHANISMS, _ITERATIONS)
            request.upsertions.extend(asked.upsertions)
        for error in altered_users(links, request).values():
            if error is not None:
                raise error

    def own_way(self, bootstrap: str) -> Bootstrap:
        """Return the way in by which this process administers the broker."""
        from kbroker.client.bootstrap import Bootstrap
        from kbroker.client.connection_settings import ConnectionSettings, Tls
        from kbroker.sasl.login import Login

        login = None
        if self._users:
            login = Login(mechanism="PLAIN", username=_OWN_USER, password=self._own_password)
        tls = Tls(ca_file=self.access(bootstrap).ca) if self._has_tls else None
        return Bootstrap(bootstrap, ConnectionSettings(tls=tls, login=login))

    def _jaas(self) -> str:
        own = f"username={quoted(_OWN_USER)} password={quoted(self._own_password)}"
        everybody = {**self._users, _OWN_USER: self._own_password}
        users = " ".join(f"user_{name}={quoted(text)}" for name, text in everybody.items())
        return f"{_PLAIN_MODULE} required {own} {users};"

    def _make_certificates(self) -> None:
        from kbroker.certificates.certificate_directory import (
            CertificateDirectory,
            make_certificates,
        )

        make_certificates(
            CertificateDirectory(str(self._tls_directory)),
            hosts=(),
            machine=socket.gethostname(),
            clients=(),
            now=datetime.now(UTC),
            days=_DAYS,
        )


def _escaped(text: str) -> str:
    """The text as a value in a file of properties."""
    return text.replace("\\", "\\\\")
