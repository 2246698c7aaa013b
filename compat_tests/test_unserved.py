"""Clients that ask for what kbroker does not serve: each gives up at once instead of waiting, and the
broker's log names it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from compat_tests.conftest import BrokerProcess

SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)


@pytest.fixture(scope="module")
def broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    if target != "kbroker":
        pytest.skip("asks for what other brokers serve")
    broker = BrokerProcess(tmp_path_factory.mktemp("unserved") / "data")
    broker.start()
    yield broker
    broker.stop()


def told_of(broker: BrokerProcess, client_id: str) -> list[str]:
    """Return what the log says of a client, from its software on."""
    lines = [line for line in broker.log_text().splitlines() if f"client '{client_id}'" in line]
    assert all(" WARNING " in line for line in lines)
    return [line.partition(" at 127.0.0.1")[2] for line in lines]


def librdkafka(broker: BrokerProcess, **settings: str) -> dict[str, object]:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": broker.bootstrap, "logger": SILENT, **dotted}


def test_librdkafka_gives_a_transaction_up(broker: BrokerProcess) -> None:
    for _ in range(2):
        producer = Producer(librdkafka(broker, client_id="ck-txn", transactional_id="x"))
        with pytest.raises(KafkaException) as given_up:
            producer.init_transactions(10)
        assert given_up.value.args[0].fatal()
        assert "remove transactional.id" in given_up.value.args[0].str()

    (told,) = told_of(broker, "ck-txn")
    assert told.startswith(" (confluent-kafka-python ")
    assert ") asks for transactions, which this broker does not serve: remove trans" in told


def test_librdkafka_gives_the_new_group_protocol_up(broker: BrokerProcess) -> None:
    settings = librdkafka(broker, client_id="ck-848", group_id="g", group_protocol="consumer")
    consumer = Consumer(settings)
    consumer.subscribe(["t"])

    message = consumer.poll(10)

    assert message is not None
    error = message.error()
    assert error is not None
    assert "ConsumerGroupHeartbeat fatal error" in error.str()
    (told,) = told_of(broker, "ck-848")
    assert told.endswith(": set group.protocol=classic in the client")
    consumer.close()


def test_librdkafka_gives_a_share_group_up(broker: BrokerProcess) -> None:
    consumer = ShareConsumer(librdkafka(broker, client_id="ck-share", group_id="g"))
    consumer.subscribe(["t"])

    with pytest.raises(KafkaException, match="ShareGroupHeartbeat fatal error"):
        consumer.poll(10)

    assert len(told_of(broker, "ck-share")) == 1


def test_kafka_python_gives_a_transaction_up(broker: BrokerProcess) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, client_id="kp-txn", transactional_id="x"
    )
    with pytest.raises(KafkaError, match="Could not find a coordinator"):
        producer.init_transactions()
    producer.close(0)

    assert told_of(broker, "kp-txn")[0].startswith(" (kafka-python ")


@pytest.mark.parametrize(
    ("client_id", "settings", "asked"),
    [
        ("aio-txn", {"transactional_id": "x"}, "transactions"),
        (
            "aio-sasl",
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "user",
                "sasl_plain_password": "password",
            },
            "SASL logins",
        ),
    ],
)
async def test_aiokafka_gives_up(
    broker: BrokerProcess, client_id: str, settings: dict[str, str], asked: str
) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, client_id=client_id, **settings)
    with pytest.raises(AioKafkaError):
        await producer.start()
    await producer.stop()

    (told,) = told_of(broker, client_id)
    assert told.startswith(f" asks for {asked}, which this broker does not serve: ")
