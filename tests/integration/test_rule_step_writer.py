"""The records of a step of rules are in their topics once, in whatever order its files hold them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from kafka import KafkaConsumer

from kbroker.client.cluster_links import ClusterLinks
from kbroker.model import TopicPartition
from kbroker.pipeline.rules.step_journal import OUTPUTS
from kbroker.pipeline.rules.step_writer import StepWriter
from kbroker.testing import Broker

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def add_file(step: Path, number: int, topics: list[str]) -> None:
    rows = [
        {"topic": topic, "key": b"k", "value": b"%s %d" % (topic.encode(), number)}
        for topic in topics
    ]
    path = step / OUTPUTS / "0000" / f"{number}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)


def committed(broker: Broker, topic: str) -> list[bytes]:
    with closing(
        KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            consumer_timeout_ms=2_000,
        )
    ) as consumer:
        return [record.value for record in consumer]


def test_a_step_may_come_back_to_a_topic_that_it_has_written_to(tmp_path: Path) -> None:
    for number, topics in enumerate((["late", "broken"], ["late"], ["broken", "late"])):
        add_file(tmp_path, number, topics)
    with Broker() as broker:
        with closing(ClusterLinks(broker.bootstrap)) as links:
            for topic in ("late", "broken"):
                links.ready_topic(topic, creates=True)
        writer = StepWriter(broker.bootstrap, "rules", TopicPartition("broken", 0))
        assert writer.write(0, tmp_path, is_noted=True) == {"late": 3, "broken": 2}
        assert writer.write(0, tmp_path, is_noted=True) == {}

        assert committed(broker, "late") == [b"late 0", b"late 1", b"late 2"]
        assert committed(broker, "broken") == [b"broken 0", b"broken 2"]
