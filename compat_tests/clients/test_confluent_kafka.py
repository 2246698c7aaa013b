"""What confluent-kafka (librdkafka) is refused; the rest of it is in matrix/."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)


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
