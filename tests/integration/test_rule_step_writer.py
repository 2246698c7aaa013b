"""The records of a step of rules are in their topics once, in whatever order its files hold them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka import KafkaConsumer

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import delete_group
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.rule_jobs.step_journal import OUTPUTS, RulesStep
from kbroker.pipeline.rule_jobs.step_writer import StepWriter
from tests.fakes.running.forked_broker import Broker

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
        step = RulesStep(number=0, batch=0, outputs_id="a")
        assert writer.write(step, tmp_path, is_new=True) == {"late": 3, "broken": 2}
        assert writer.write(step, tmp_path, is_new=False) == {}

        assert committed(broker, "late") == [b"late 0", b"late 1", b"late 2"]
        assert committed(broker, "broken") == [b"broken 0", b"broken 2"]


def test_results_that_follow_others_than_those_that_were_written_are_refused(
    tmp_path: Path,
) -> None:
    add_file(tmp_path, 0, ["late"])
    first = RulesStep(number=0, batch=0, outputs_id="a")
    second = RulesStep(number=2, batch=2, outputs_id="b", follows_id="a")
    of_a_copy = [
        RulesStep(number=number, batch=2, outputs_id="c", follows_id="a") for number in (1, 2, 3)
    ]
    with Broker() as broker:
        with closing(ClusterLinks(broker.bootstrap)) as links:
            links.ready_topic("late", creates=True)
            writer = StepWriter(broker.bootstrap, "rules", TopicPartition("late", 0))
            for step in (first, second):
                assert writer.write(step, tmp_path, is_new=True) == {"late": 1}
            for step in of_a_copy:
                with pytest.raises(PipelineError, match="that this checkpoint does not know"):
                    writer.write(step, tmp_path, is_new=True)
            assert delete_group(links, "rules") == 0
            with pytest.raises(PipelineError, match="no longer knows which results"):
                writer.write(second, tmp_path, is_new=False)
        third = RulesStep(number=4, batch=4, outputs_id="d", follows_id="b")
        assert writer.write(third, tmp_path, is_new=True) == {"late": 1}
        assert len(committed(broker, "late")) == 3
