"""Clients that come in by TLS and logins. Each makes a topic, writes a record and reads it in a group;
a client with a wrong password is refused. `python -m compat_tests.clients.secured_clients` has all of
them come in to kbroker and to Apache Kafka 3.9.2, and fails if one does there and not here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PythonTopic
from kafka.errors import KafkaError

from compat_tests.answers.logins import LISTENER, SETTINGS, Listening, listening, make_users
from compat_tests.clients import go_clients, node_clients
from compat_tests.clients.every_client import run
from compat_tests.clients.java_clients import kept_classes, run_java
from compat_tests.commands.command_line import run as run_kbroker
from compat_tests.running import apache_kafka
from compat_tests.running.prerequisites import require_program

PASSWORDS = {"PLAIN": "ann-secret", "SCRAM-SHA-256": "pencil", "SCRAM-SHA-512": "pencil"}
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
JAVA = ("2.8.2", "3.9.2", "4.3.1")
OURS, THEIRS = "kbroker", "3.9.2"
VALUE = b"value"
AT_ONCE = 5  # programs, which mostly wait


@dataclass(frozen=True)
class Way:
    """How a client comes in: by `ca` and `certificate` (PEM, with its key) where there is TLS, by
    `mechanism` and `password` where there is a login.
    """

    address: str
    protocol: str
    mechanism: str
    password: str
    ca: str
    certificate: str

    @property
    def is_right(self) -> bool:
        return PASSWORDS.get(self.mechanism, "") == self.password

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        return self.protocol.startswith("SASL")

    def topic(self, client: str) -> str:
        """A topic that no other client and no other way has."""
        kind = "right" if self.is_right else "wrong"
        return "-".join(filter(None, (kind, client, self.protocol, self.mechanism)))


@contextmanager
def secured_broker(folder: Path, version: str = OURS) -> Iterator[list[Way]]:
    """A broker with listeners of each kind, kbroker or a version of Apache Kafka; yields all ways in,
    and some that are wrong.
    """
    settings = _settings(folder)
    if version == OURS:
        with listening(settings, *PROTOCOLS) as broker:
            yield list(_ways(broker.ports, folder))
        return
    ports = {protocol: apache_kafka.free_port() for protocol in PROTOCOLS}
    with apache_kafka.broker(version, settings, ports) as (bootstrap, _):
        make_users(bootstrap)
        yield list(_ways(ports, folder))


@contextmanager
def secured(folder: Path) -> Iterator[Listening]:
    """A kbroker with listeners of each kind, and certificates in the folder."""
    with listening(_settings(folder), *PROTOCOLS) as broker:
        yield broker


def _settings(folder: Path) -> dict[str, str]:
    """Settings of listeners of each kind, with certificates that are made in the folder."""
    made = run_kbroker("cert", "make", str(folder / "certificates"), "--client", "ann")
    assert made.code == 0, made
    files = {name: str(folder / "certificates" / f"{name}.pem") for name in ("broker", "ca", "ann")}
    return {
        **SETTINGS,
        **{name.replace(LISTENER, "listener.name.sasl_ssl."): v for name, v in SETTINGS.items()},
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files["broker"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files["ca"],
        "listener.name.ssl.ssl.client.auth": "required",
    }


def _ways(ports: dict[str, int], folder: Path) -> Iterator[Way]:
    ca, own = (str(folder / "certificates" / f"{name}.pem") for name in ("ca", "ann"))
    for protocol in PROTOCOLS:
        address = f"127.0.0.1:{ports[protocol]}"
        for mechanism, right in PASSWORDS.items() if protocol != "SSL" else [("", "")]:
            for password in (right, "wrong") if protocol == "SASL_PLAINTEXT" else (right,):
                yield Way(address, protocol, mechanism, password, ca, own)


def by_confluent(way: Way, topic: str) -> bool:
    """Come in by librdkafka; False if it is refused."""
    settings = {"bootstrap.servers": way.address, "security.protocol": way.protocol}
    if way.has_login:
        settings |= {
            "sasl.mechanism": way.mechanism,
            "sasl.username": "ann",
            "sasl.password": way.password,
        }
    if way.has_tls:
        settings |= {
            "ssl.ca.location": way.ca,
            "ssl.certificate.location": way.certificate,
            "ssl.key.location": way.certificate,
        }
    refusals: list[object] = []
    admin = AdminClient({**settings, "error_cb": refusals.append})
    try:
        admin.list_topics(timeout=30 if way.is_right else 0.5)
    except KafkaException:
        admin.poll(5)
        assert "_AUTHENTICATION" in str(refusals)
        return False
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    producer = Producer(settings)
    producer.produce(topic, VALUE)
    assert producer.flush(20) == 0
    reading = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **reading})
    consumer.subscribe([topic])
    record = consumer.poll(30)
    assert record is not None
    assert record.value() == VALUE
    consumer.close()
    return True


def by_kafka_python(way: Way, topic: str) -> bool:
    """Come in by kafka-python; False if it is refused."""
    settings = {"bootstrap_servers": way.address, **_of_python(way)}
    if way.has_tls:
        settings |= {
            "ssl_cafile": way.ca,
            "ssl_certfile": way.certificate,
            "ssl_keyfile": way.certificate,
        }
    try:
        patience_ms = 30_000 if way.is_right else 500
        admin = KafkaAdminClient(**settings, bootstrap_timeout_ms=patience_ms)
    except KafkaError:
        return False
    admin.create_topics([PythonTopic(topic, 1, 1)])
    producer = KafkaProducer(**settings)
    producer.send(topic, VALUE).get(20)
    consumer = KafkaConsumer(
        topic, **settings, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    assert next(consumer).value == VALUE
    for client in (admin, producer, consumer):
        client.close()
    return True


def by_aiokafka(way: Way, topic: str) -> bool:
    """Come in by aiokafka; False if it is refused."""
    settings = {"bootstrap_servers": way.address, **_of_python(way)}
    if way.has_tls:
        settings["ssl_context"] = create_ssl_context(
            cafile=way.ca, certfile=way.certificate, keyfile=way.certificate
        )

    async def use() -> bool:
        admin = AIOKafkaAdminClient(**settings)
        try:
            await admin.start()
        except AioKafkaError:
            return False
        await admin.create_topics([AioTopic(topic, 1, 1)])
        await admin.close()
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, VALUE)
        reading = {"group_id": topic, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **settings, **reading) as consumer:
            record = await asyncio.wait_for(consumer.getone(), 30)
        return bool(record.value == VALUE)

    return asyncio.run(use())


def by_kafkajs(way: Way, topic: str) -> bool:
    """Come in by KafkaJS; False if it is refused."""
    program = node_clients.folder() / "secured.js"
    return _by_program([require_program("node", "install Node.js"), str(program)], way, topic)


def by_franz_go(way: Way, topic: str) -> bool:
    """Come in by franz-go; False if it is refused."""
    return _by_program([str(go_clients.kept_program("secured")), "franz-go"], way, topic)


def by_kafka_go(way: Way, topic: str) -> bool:
    """Come in by kafka-go; False if it is refused."""
    return _by_program([str(go_clients.kept_program("secured")), "kafka-go"], way, topic)


Use = Callable[[Way, str], bool]
OF_PYTHON: tuple[Use, ...] = (by_confluent, by_kafka_python, by_aiokafka)
PROGRAMS: tuple[Use, ...] = (by_kafkajs, by_franz_go, by_kafka_go)


def wrong(use: Use, ways: Iterable[Way]) -> list[str]:
    """Have a client come in each way; returns the ways that did not go as wanted, with a reason."""

    def went(way: Way) -> str:
        try:
            is_in = use(way, way.topic(use.__name__))
        except Exception as error:
            return f"{way.topic('')}: {error!r}"
        return "" if is_in == way.is_right else f"{way.topic('')}: let in is {is_in}"

    # Those of Python share what they import; one of them at a time.
    with ThreadPoolExecutor(AT_ONCE if use in PROGRAMS else 1) as pool:
        return list(filter(None, pool.map(went, ways)))


def java_properties(way: Way, topic: str) -> str:
    """The settings of a Java client, with the topic that it uses."""
    lines = [
        f"topic={topic}",
        f"bootstrap.servers={way.address}",
        f"security.protocol={way.protocol}",
    ]
    if way.has_login:
        name = "plain.Plain" if way.mechanism == "PLAIN" else "scram.Scram"
        lines += [
            f"sasl.mechanism={way.mechanism}",
            f"sasl.jaas.config=org.apache.kafka.common.security.{name}LoginModule required "
            f'username="ann" password="{way.password}";',
        ]
    if way.has_tls:  # as texts, since Java 2.8 takes no file with an open key
        written = Path(way.certificate).with_suffix(".properties").read_text()
        lines.insert(0, written.replace("security.protocol=", "# "))
    return "\n".join(lines)


def use_by_java(ways: list[Way], version: str, folder: Path) -> list[str]:
    """Have Java's client of a version come in each way; returns the topics of the ways that went as
    wanted, those without an error.
    """
    files = []
    for way in ways:
        topic = way.topic(f"java-{version}")
        files.append(folder / topic)
        files[-1].write_text(java_properties(way, topic))
    classes = kept_classes("Logins", version)
    printed = run_java(classes, version, "Logins", *map(str, files), timeout_s=110)
    return printed.decode().split()


def _of_python(way: Way) -> dict[str, object]:
    settings: dict[str, object] = {"security_protocol": way.protocol}
    if way.has_login:
        settings |= {
            "sasl_mechanism": way.mechanism,
            "sasl_plain_username": "ann",
            "sasl_plain_password": way.password,
        }
    return settings


def _by_program(command: list[str], way: Way, topic: str) -> bool:
    """Have a program come in, which says `done`, or `refused` if the login is."""
    said = run([*command, json.dumps(asdict(way)), topic]).decode().split()
    assert said in (["done"], ["refused"])
    return said == ["done"]


def all_wrong(version: str) -> dict[str, list[str]]:
    """Have all clients come in to a broker; returns what did not go as wanted, by client."""
    with (
        tempfile.TemporaryDirectory(prefix="secured-") as folder,
        secured_broker(Path(folder), version) as ways,
    ):
        found = {use.__name__: wrong(use, ways) for use in (*OF_PYTHON, *PROGRAMS)}
        for java in JAVA:
            done = use_by_java(ways, java, Path(folder))
            found[f"java {java}"] = [
                w.topic("") for w in ways if w.topic(f"java-{java}") not in done
            ]
        print(f"{version}: {len(found)} clients, {len(ways)} ways each")
        for client, ways_wrong in found.items():
            print(f"  {client}:", "; ".join(ways_wrong) or "all as wanted", flush=True)
    return found


def main() -> None:
    """Have all clients come in to both brokers, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=(OURS, THEIRS), help="one of the two brokers")
    only = parser.parse_args().only
    found = {each: all_wrong(each) for each in (OURS, THEIRS) if only in (None, each)}
    ours = {(client, each) for client, ways in found.get(OURS, {}).items() for each in ways}
    theirs = {(client, each) for client, ways in found.get(THEIRS, {}).items() for each in ways}
    sys.exit(f"in there and not here: {sorted(ours - theirs)}" if ours - theirs else 0)


if __name__ == "__main__":
    main()
