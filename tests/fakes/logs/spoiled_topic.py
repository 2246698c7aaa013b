"""A broker's topic in the middle of which stand batches that cannot be read, as older versions and
Apache Kafka may have stored them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.running.forked_broker import Broker

CLEAN_STOP = ".kafka_cleanshutdown"


@contextmanager
def broker_with(data: Path, partitions: Mapping[str, Sequence[bytes]]) -> Iterator[str]:
    """The address of a broker whose partitions (`topic-0`) hold these batches and nothing else."""
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    with Broker(data=data) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        counts: dict[str, int] = {}
        for name in partitions:
            topic, _, _ = name.rpartition("-")
            counts[topic] = counts.get(topic, 0) + 1
        kept = {"retention.ms": "-1"}
        admin.create_topics(
            [NewTopic(topic, count, 1, topic_configs=kept) for topic, count in counts.items()]
        )
        admin.close()
    for name, batches in partitions.items():
        (data / name / f"{0:020d}.log").write_bytes(b"".join(batches))
        for index in (data / name).glob("*index"):
            index.unlink()
    (data / CLEAN_STOP).unlink()
    with Broker(data=data) as broker:
        yield broker.bootstrap
