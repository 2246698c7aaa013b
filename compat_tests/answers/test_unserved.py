"""Clients that ask for what kbroker does not serve: each gives up at once instead of waiting, and the
broker's log names it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, ShareConsumer

from compat_tests.conftest import BrokerProcess

SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)


@pytest.fixture(scope="module")
def broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    if target != "kbroker":
        pytest.skip("asks for what other brokers serve")
    classic_alone = "--override=group.coordinator.rebalance.protocols=classic"
    broker = BrokerProcess(tmp_path_factory.mktemp("unserved") / "data", (classic_alone,))
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


def test_librdkafka_gives_the_new_group_protocol_up_where_it_is_off(broker: BrokerProcess) -> None:
    settings = librdkafka(broker, client_id="ck-848", group_id="g", group_protocol="consumer")
    consumer = Consumer(settings)
    consumer.subscribe(["t"])

    message = consumer.poll(10)

    assert message is not None
    error = message.error()
    assert error is not None
    assert "ConsumerGroupHeartbeat fatal error" in error.str()
    (told,) = told_of(broker, "ck-848")
    assert "set group.protocol=classic in the client; docs/groups.md says" in told
    consumer.close()


def test_librdkafka_gives_a_share_group_up(broker: BrokerProcess) -> None:
    consumer = ShareConsumer(librdkafka(broker, client_id="ck-share", group_id="g"))
    consumer.subscribe(["t"])

    with pytest.raises(KafkaException, match="ShareGroupHeartbeat fatal error"):
        consumer.poll(10)

    assert len(told_of(broker, "ck-share")) == 1


async def test_aiokafka_gives_a_login_up(broker: BrokerProcess) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap,
        client_id="aio-sasl",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="user",
        sasl_plain_password="password",
    )
    with pytest.raises(AioKafkaError):
        await producer.start()
    await producer.stop()

    (told,) = told_of(broker, "aio-sasl")
    assert told.startswith(
        " asks for SASL logins on a listener without them, which this broker does not serve: "
    )
