"""Clients that log in at a listener with SASL: they make a topic, write, and read in a group; with a
wrong password they are told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PythonTopic
from kafka.errors import KafkaError

from compat_tests.answers.logins import kbroker
from compat_tests.clients.java_clients import kept_classes, run_java

MECHANISMS = {"PLAIN": "ann-secret", "SCRAM-SHA-256": "pencil", "SCRAM-SHA-512": "pencil"}
JAVA = ("2.8.2", "3.9.2", "4.3.1")
VALUE = b"value"


@pytest.fixture(scope="module")
def address(target: str) -> Iterator[str]:
    if target != "kbroker":
        pytest.skip("starts a kbroker with users of its own")
    with kbroker() as port:
        yield f"127.0.0.1:{port}"


def by_confluent(address: str, mechanism: str, password: str, topic: str) -> bool:
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "ann",
        "sasl.password": password,
    }
    refusals: list[object] = []
    admin = AdminClient({**settings, "error_cb": refusals.append})
    try:
        admin.list_topics(timeout=30 if password == MECHANISMS[mechanism] else 0.5)
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


def by_kafka_python(address: str, mechanism: str, password: str, topic: str) -> bool:
    settings = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": password,
    }
    is_right = password == MECHANISMS[mechanism]
    try:
        admin = KafkaAdminClient(**settings, bootstrap_timeout_ms=30_000 if is_right else 1_000)
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


def by_aiokafka(address: str, mechanism: str, password: str, topic: str) -> bool:
    settings = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": password,
    }

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


@pytest.mark.parametrize("use", [by_confluent, by_kafka_python, by_aiokafka])
def test_clients_log_in_by_each_mechanism(
    address: str, use: Callable[[str, str, str, str], bool]
) -> None:
    for mechanism, password in MECHANISMS.items():
        assert use(address, mechanism, password, f"{use.__name__}-{mechanism}")
        assert not use(address, mechanism, "wrong", f"{use.__name__}-{mechanism}-wrong")


@pytest.mark.java
@pytest.mark.parametrize("version", JAVA)
def test_java_clients_log_in_by_each_mechanism(address: str, version: str, tmp_path: Path) -> None:
    topics, files = [], []
    for mechanism, right in MECHANISMS.items():
        for password in (right, "no"):
            kind = "right" if password == right else "wrong"
            topics.append(f"{kind}-java-{version}-{mechanism}")
            files.append(tmp_path / topics[-1])
            files[-1].write_text(
                f"""topic={topics[-1]}
bootstrap.servers={address}
security.protocol=SASL_PLAINTEXT
sasl.mechanism={mechanism}
sasl.jaas.config={_module(mechanism)} required username="ann" password="{password}";
"""
            )

    printed = run_java(
        kept_classes("Logins", version), version, "Logins", *map(str, files), timeout_s=110
    )

    assert printed.decode().split() == topics


def _module(mechanism: str) -> str:
    name = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return f"org.apache.kafka.common.security.{name}LoginModule"
