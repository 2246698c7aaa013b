"""Brokers that ask an authorizer: kbroker, Apache Kafka 3.9.2 with AclAuthorizer, and 4.3.1 with
StandardAuthorizer. Super users come in without a login, others with one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from compat_tests.answers.logins import SETTINGS, listening
from compat_tests.running import apache_kafka
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.shared_zookeeper import fresh_chroot

ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
RIGHTS = {"super.users": "User:ANONYMOUS", "auto.create.topics.enable": "false"}
LOGINS_AND_RIGHTS: Mapping[str, str] = MappingProxyType({**SETTINGS, **RIGHTS})


class Authorized(NamedTuple):
    """A broker that runs."""

    bootstrap: str  # of super users
    port: int  # of those who log in
    settles: bool  # it needs a moment until a change of rules is in force
    log: Callable[[], str] = str


Start = Callable[..., AbstractContextManager[Authorized]]
AnswerT = TypeVar("AnswerT")


@contextmanager
def kbroker(settings: Mapping[str, str] = LOGINS_AND_RIGHTS) -> Iterator[Authorized]:
    """A kbroker with these settings and an authorizer."""
    settings = {**settings, "authorizer.class.name": ACL_AUTHORIZER}
    with listening(settings, "SASL_PLAINTEXT") as broker:
        bootstrap = f"127.0.0.1:{broker.ports['PLAINTEXT']}"
        port = broker.ports["SASL_PLAINTEXT"]
        yield Authorized(bootstrap, port, settles=False, log=broker.log)


@contextmanager
def with_zookeeper(settings: Mapping[str, str] = LOGINS_AND_RIGHTS) -> Iterator[Authorized]:
    """Apache Kafka 3.9.2 with these settings and AclAuthorizer."""
    with tempfile.TemporaryDirectory(prefix="authorized-") as root:
        port, inside = apache_kafka.free_port(), apache_kafka.free_port()
        own = {
            "authorizer.class.name": ACL_AUTHORIZER,
            "listeners": f"PLAINTEXT://127.0.0.1:{inside},SASL_PLAINTEXT://127.0.0.1:{port}",
            "zookeeper.session.timeout.ms": "30000",  # of a busy machine
        }
        directory = Path(root) / "data"
        broker = ApacheBroker(directory, fresh_chroot(), settings={**settings, **own}, port=inside)
        broker.start()
        try:
            yield Authorized(broker.bootstrap, port, settles=False, log=broker.log_text)
        finally:
            broker.stop()


@contextmanager
def with_kraft(settings: Mapping[str, str] = LOGINS_AND_RIGHTS) -> Iterator[Authorized]:
    """Apache Kafka 4.3.1 with these settings and StandardAuthorizer."""
    port = apache_kafka.free_port()
    settings = {**settings, "authorizer.class.name": STANDARD_AUTHORIZER}
    with apache_kafka.broker(apache_kafka.NEWEST, settings, {"SASL_PLAINTEXT": port}) as (own, _):
        yield Authorized(own, port, settles=True)


THEIRS: Mapping[str, Start] = MappingProxyType(
    {apache_kafka.ZOOKEEPER_LINE: with_zookeeper, apache_kafka.NEWEST: with_kraft}
)


def asked_of_each(
    ask: Callable[[Authorized], AnswerT], settings: Mapping[str, str] = LOGINS_AND_RIGHTS
) -> dict[str, AnswerT]:
    """The answers of brokers of Apache Kafka with these settings, by version."""
    found = {}
    for version, start in THEIRS.items():
        with start(settings) as broker:
            found[version] = ask(broker)
    return found
