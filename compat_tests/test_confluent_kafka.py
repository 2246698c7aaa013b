"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from compat_tests.clients import CODECS, Sample, samples


def write(bootstrap: str, topic: str, wanted: list[Sample], **settings: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    errors: list[object] = []
    for s in wanted:
        producer.produce(
            topic,
            value=s.value,
            key=s.key,
            headers=list(s.headers),
            timestamp=s.timestamp_ms,
            partition=0,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not errors


def read(bootstrap: str, topic: str, count: int) -> list[Sample]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Sample] = []
    while len(found) < count:
        polled = consumer.consume(count - len(found), timeout=20)
        assert polled, f"nothing more after {len(found)} of {count} records"
        for message in polled:
            assert message.error() is None
            assert message.offset() == len(found)
            headers = tuple(message.headers() or ())
            found.append(Sample(message.key(), message.value(), headers, message.timestamp()[1]))
    consumer.close()
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_everything_written_is_read_back(
    bootstrap: str, topic: str, records: int, codec: str
) -> None:
    wanted = [s for s in samples(records) if s.key != b""]

    write(bootstrap, topic, wanted, **{"compression.type": codec})

    assert read(bootstrap, topic, len(wanted)) == wanted


@pytest.mark.parametrize(
    "settings", [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable.idempotence": True}]
)
def test_every_acks_setting_writes(bootstrap: str, topic: str, settings: dict[str, object]) -> None:
    wanted = [s for s in samples(80) if s.key != b""]

    write(bootstrap, topic, wanted, **settings)

    assert read(bootstrap, topic, len(wanted)) == wanted


def test_an_unknown_partition_is_told(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})

    with pytest.raises(Exception, match="nknown partition") as raised:
        consumer.get_watermark_offsets(TopicPartition(topic, 7), timeout=10)

    assert raised.value.args[0].code() in (
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    consumer.close()


def test_the_admin_client_creates_describes_and_deletes(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})

    admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "600000"})])[topic].result(
        20
    )
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    admin.delete_topics([topic])[topic].result(20)

    assert sorted(partitions) == [0, 1]


def test_access_rules_are_refused_and_nobody_has_credentials(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    rule = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:a", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip

    with pytest.raises(KafkaException) as refused:
        admin.create_acls([rule])[rule].result(20)

    assert refused.value.args[0].code() == KafkaError.SECURITY_DISABLED
    assert admin.describe_user_scram_credentials().result(20) == {}


def test_the_watermarks_follow_what_is_written(bootstrap: str, topic: str) -> None:
    wanted = [s for s in samples(40) if s.key != b""]
    write(bootstrap, topic, wanted)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})

    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)

    assert (low, high) == (0, len(wanted))
    consumer.close()
