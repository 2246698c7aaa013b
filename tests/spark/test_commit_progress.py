"""`commit_progress` in a session with several queries, sources and clusters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from compat_tests.conftest import BrokerProcess
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import committed_offsets
from kbroker.pipeline import commit_progress
from kbroker.pipeline.consumer_lag.commit_progress import ProgressCommits
from kbroker.pipeline.errors import PipelineError

WAIT_S = 60.0
Offsets = dict[tuple[str, int], int | None]


@pytest.fixture
def commit_to(spark: Any) -> Iterator[Callable[..., ProgressCommits]]:
    """Starts listeners, and ends them with the test."""
    listeners: list[ProgressCommits] = []

    def start(bootstrap: str, **options: Any) -> ProgressCommits:
        listeners.append(commit_progress(spark, bootstrap, **options))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.close()


@pytest.fixture
def other_cluster(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "other" / "data")
    broker.start()
    yield broker
    broker.stop()


def create(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    admin.close()


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(count):
        producer.send(topic, str(number).encode())
    producer.close()


def committed(bootstrap: str, group: str) -> Offsets:
    with closing(ClusterLinks(bootstrap)) as links:
        return dict(committed_offsets(links, group).items())


def records_of(spark: Any, bootstrap: str, topic: str, per_trigger: int = 1_000) -> Any:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(per_trigger))
        .load()
        .select("topic", "partition", "offset")
    )


def run(frame: Any, checkpoint: Path, name: str | None, work: Any = None) -> str:
    """Run to the end of what is there; the id of the query."""
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    writer = writer.queryName(name) if name else writer
    writer = writer.foreachBatch(work) if work else writer.format("noop")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    return str(query.id)


def test_all_kafka_sources_of_a_query_are_committed_and_never_ahead_of_its_batches(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path, commit_to: Any
) -> None:
    one, two = f"{topic}-1", f"{topic}-2"
    create(bootstrap, one)
    create(bootstrap, two)
    write(bootstrap, one, 40)
    write(bootstrap, two, 25)
    listener = commit_to(bootstrap)
    group = f"spark-{topic}"
    seen: list[tuple[Offsets, Offsets]] = []  # committed when a batch began, and its first offsets

    def work(frame: Any, batch_id: int) -> None:
        before = committed(bootstrap, group)
        rows = sorted(map(tuple, frame.collect()), reverse=True)
        seen.append((before, {(topic, partition): offset for topic, partition, offset in rows}))

    both = records_of(spark, bootstrap, one, 20).union(records_of(spark, bootstrap, two, 20))
    run(both, tmp_path / "checkpoint", topic, work)

    assert listener.flush(WAIT_S)
    assert committed(bootstrap, group) == {(one, 0): 40, (two, 0): 25}
    assert len(seen) == 2
    assert all(
        (before.get(partition) or 0) <= start
        for before, starts in seen
        for partition, start in starts.items()
    )


def test_a_query_without_name_has_its_id_and_goes_on_after_a_restart(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path, commit_to: Any
) -> None:
    create(bootstrap, topic)
    write(bootstrap, topic, 5)
    listener = commit_to(bootstrap)

    query_id = run(records_of(spark, bootstrap, topic), tmp_path / "checkpoint", None)
    assert listener.flush(WAIT_S)
    first = committed(bootstrap, f"spark-{query_id}")
    write(bootstrap, topic, 5)
    run(records_of(spark, bootstrap, topic), tmp_path / "checkpoint", None)
    assert listener.flush(WAIT_S)

    assert first == {(topic, 0): 5}
    assert committed(bootstrap, f"spark-{query_id}") == {(topic, 0): 10}


def test_a_cluster_that_is_away_holds_up_no_query_and_has_the_offsets_later(
    spark: Any, bootstrap: str, topic: str, commit_to: Any, other_cluster: BrokerProcess,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    folder = other_cluster.data.parent
    create(bootstrap, topic)
    create(other_cluster.bootstrap, topic)
    listener = commit_to(other_cluster.bootstrap, queries=[topic])
    other_cluster.stop()

    write(bootstrap, topic, 30)
    run(records_of(spark, bootstrap, topic, 10), folder / "checkpoint", topic)
    assert not listener.flush(WAIT_S)
    other_cluster.start()
    write(bootstrap, topic, 1)
    run(records_of(spark, bootstrap, topic, 10), folder / "checkpoint", topic)
    run(records_of(spark, bootstrap, topic), folder / "other", f"{topic}-not-named")

    assert listener.flush(WAIT_S)
    assert committed(other_cluster.bootstrap, f"spark-{topic}") == {(topic, 0): 31}
    assert committed(other_cluster.bootstrap, f"spark-{topic}-not-named") == {}
    warnings = [entry for entry in caplog.records if entry.levelno == logging.WARNING]
    assert [entry.name for entry in warnings].count(
        "kbroker.pipeline.consumer_lag.progress_committer"
    ) == 1


def test_what_is_no_address_is_refused(spark: Any) -> None:
    with pytest.raises(PipelineError, match=r"^the argument bootstrap 'nowhere' is not HOST"):
        commit_progress(spark, "nowhere")
