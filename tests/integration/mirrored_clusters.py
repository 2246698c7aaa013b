"""Two brokers, and mirrors between them that run in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kafka import KafkaConsumer
from kafka.structs import TopicPartition

from kbroker.cli.pipeline.mirror import mirror_display, print_report
from kbroker.client.bootstrap import Bootstrap
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_controller
from kbroker.client.consumer_groups import OF_JOBS, commit_offsets, committed_entries
from kbroker.client.record_sender import RecordSender, SendOptions
from kbroker.client.topic_changes import made_topics
from kbroker.client.transactional_producer import Position, TransactionalProducer, WriterIdentity
from kbroker.model import TopicPartition as Place
from kbroker.pipeline.mirroring.mirror_run import MirrorRun
from kbroker.pipeline.mirroring.mirrored_records import SOURCE_HEADER
from kbroker.pipeline.mirroring.mirrored_topics import MirrorChoice
from kbroker.pipeline.spark_job.session import OWN_SESSION
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.record.bulk_records import whole_body_of
from kbroker.record.default_record import Headers, Record
from tests.integration.client_reads import settled_end

BASE_MS = time.time_ns() // 1_000_000 - 3_600_000  # younger than retention


class Found(NamedTuple):
    """A record of a topic, without the header of a mirror."""

    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def mirror(
    source: str,
    target: str,
    topic: str,
    checkpoint: Path,
    *,
    every_s: float | None = None,
    metrics: Path | None = None,
    **wish: Any,
) -> int:
    """Run one and return its exit code; the topic is a pattern."""
    wished = MirrorChoice(pattern=topic, **wish)
    run = MirrorRun(Bootstrap(source), Bootstrap(target), wished, -1, every_s)
    return shown(run, checkpoint, metrics)


def shown(run: MirrorRun, checkpoint: Path, metrics: Path | None = None) -> int:
    """Run one as the command does, and return its exit code."""
    display = mirror_display(str(metrics) if metrics else None)
    report = run.run(str(checkpoint), OWN_SESSION, display)
    print_report(report, "json")
    return display.exit_code(report)


def numbered(start: int, end: int) -> list[Record]:
    """Records whose values are these numbers."""
    return [Record(0, BASE_MS + at, b"k", b"%d" % at, ()) for at in range(start, end)]


def make(bootstrap: str, name: str, partitions: int = 1, **settings: str) -> None:
    """Create a topic; dots of settings are underscores."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    said: list[str] = []
    with closing(ClusterLinks(bootstrap)) as links:
        assert made_topics(links, [name], named, said.append, partitions=partitions) == [], said
        links.ready_topic(name)


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic, and wait until it is gone."""
    with closing(ClusterLinks(bootstrap)) as links:
        states = [DeleteTopicsRequest.DeleteTopicState(name=name)]
        request = DeleteTopicsRequest(topics=states, topic_names=[name], timeout_ms=9_000)
        assert ask_controller(links, request).responses[0].error_code == 0
        while links.ready_topic(name) is not None:
            pass


def trim(bootstrap: str, name: str, offset: int) -> None:
    """Delete the records of partition 0 below an offset."""
    with closing(ClusterLinks(bootstrap)) as links:
        wanted = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[wanted])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=9_000)
        (answer,) = links.ask_any(request).topics
        assert answer.partitions[0].error_code == 0


def write(bootstrap: str, topic: str, records: Sequence[Record], partition: int = 0) -> None:
    """Records with the times that they have."""
    with closing(ClusterLinks(bootstrap)) as links:
        view = links.ready_topic(topic, creates=True)
        assert view is not None
        sender = RecordSender(links, view, SendOptions(headers=None))
        times = [record.timestamp for record in records]
        sender.put(partition, list(map(whole_body_of, records)), 0, times)
        sender.complete(0)
        sender.send_until(lambda: sender.is_idle)
        assert sender.refusal is None


def identity(topic: str, id_: str) -> WriterIdentity:
    """A writer whose group no mirror copies."""
    return WriterIdentity(
        transactional_id=id_, group=f"{OF_JOBS[0]}{id_}", partition=Place(topic, 0)
    )


def write_transaction(
    bootstrap: str, topic: str, id_: str, ending: Literal["commit", "abort", "open"]
) -> None:
    """Two records of a transaction, which are its id and its ending."""
    with closing(ClusterLinks(bootstrap)) as links:
        view = links.ready_topic(topic)
        assert view is not None
        producer = TransactionalProducer(links, identity(topic, id_))
        sender = producer.sender(view)
        producer.add_partitions([Place(topic, 0)])
        sender.put(
            0,
            [
                whole_body_of(Record(0, BASE_MS, None, value.encode(), ()))
                for value in (id_, ending)
            ],
            BASE_MS,
        )
        sender.complete(BASE_MS)
        sender.send_until(lambda: sender.is_idle)
        if ending == "commit":
            producer.commit(Position(0))
        elif ending == "abort":
            producer.abort()


def records_of(bootstrap: str, topic: str, *partitions: int) -> list[Found]:
    """All that is committed, of partition 0 where none is named."""
    places = [TopicPartition(topic, number) for number in partitions or (0,)]
    ends = {place: settled_end(bootstrap, Place(*place)) for place in places}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    with closing(consumer):
        consumer.assign(places)
        consumer.seek_to_beginning()
        found = []
        while any(consumer.position(place) < ends[place] for place in places):
            for some in consumer.poll(200).values():
                found += [
                    Found(
                        each.partition,
                        each.offset,
                        each.timestamp,
                        each.key,
                        each.value,
                        tuple(pair for pair in each.headers if pair[0] != SOURCE_HEADER),
                    )
                    for each in some
                ]
    return sorted(found)


def contents(bootstrap: str, topic: str, *partitions: int) -> list[Found]:
    """As `records_of`, without the offsets."""
    return [each._replace(offset=0) for each in records_of(bootstrap, topic, *partitions)]


def check_map(source: str, target: str, topic: str, partition: int = 0) -> int:
    """Each pair of the map of offsets names one record; returns how many there are."""
    there = {each.offset: each for each in records_of(target, topic, partition)}
    here = {each.offset: each for each in records_of(source, topic, partition)}
    pairs = 0
    for entry in records_of(target, "kbroker-mirror-offsets"):
        key = json.loads(entry.key or b"")
        if (key["topic"], key["partition"]) != (topic, partition) or entry.value is None:
            continue
        for source_offset, target_offset, count in json.loads(entry.value)["runs"]:
            for at in range(count):
                ours = here[source_offset + at]._replace(offset=target_offset + at)
                assert there[target_offset + at] == ours
                pairs += 1
    return pairs


def set_place(bootstrap: str, group: str, offset: int, topic: str) -> None:
    """Have a group without members read on from there in partition 0."""
    with closing(ClusterLinks(bootstrap)) as links:
        assert set(commit_offsets(links, group, {Place(topic, 0): offset}).values()) == {0}


def place(bootstrap: str, group: str, topic: str) -> int | None:
    """Where a group reads on in partition 0."""
    with closing(ClusterLinks(bootstrap)) as links:
        entry = committed_entries(links, group).get(Place(topic, 0))
    return None if entry is None else int(entry.committed_offset)
