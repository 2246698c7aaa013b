"""Rows are written into a topic once, whatever happens to those who write them, and the offset map
says where each of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import TopicPartition as LibraryPartition

from compat_tests.running.waiting import until
from kbroker.client.broker_link import BrokerLink
from kbroker.client.cluster_links import LATEST, ClusterLinks
from kbroker.client.consumer_groups import delete_group
from kbroker.client.transactional_producer import TransactionalProducer, WriterIdentity
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.pace import Pace
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap
from kbroker.pipeline.restoring.topics.topic_writer import TopicWriter, WriterOptions
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.produce import ProduceResponse
from tests.fakes.running.forked_broker import Broker
from tests.integration.client_reads import settled_end

PLACE = TopicPartition("t", 0)
KEEPS_ALL = {"log.retention.ms": -1}  # the rows are of 2023
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
Row = dict[str, Any]


class KilledError(Exception):
    """A process ended."""


def made_rows(count: int) -> list[Row]:
    random, offset, rows = Random(7), 0, []
    for number in range(count):
        offset += random.choice((1, 1, 1, 2, 9))
        rows.append(
            {
                "key": random.choice((None, b"", b"k%d" % number)),
                "value": random.choice((None, b"v%d" % number, b"." * 500)),
                "offset": offset,
                "timestamp": datetime.fromtimestamp(1_700_000_000 + number, UTC),
                "headers": random.choice(
                    (None, [{"key": "a", "value": b"1"}, {"key": "a", "value": None}])
                ),
            }
        )
    return rows


def rows_from(rows: list[Row], offset: int, size: int = 7) -> Iterator[pa.RecordBatch]:
    left = [row for row in rows if row["offset"] >= offset]
    for at in range(0, len(left), size):
        yield pa.RecordBatch.from_pylist(left[at : at + size], schema=SCHEMA)


def written(broker: Broker) -> dict[int, Row]:
    """All that readers of committed records find, by offset."""
    end = settled_end(broker.bootstrap, PLACE)
    with closing(
        KafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed")
    ) as consumer:
        place = LibraryPartition(*PLACE)
        consumer.assign([place])
        consumer.seek_to_beginning()
        found: dict[int, Row] = {}
        while consumer.position(place) < end:
            for records in consumer.poll(500).values():
                for record in records:
                    headers = [{"key": key, "value": value} for key, value in record.headers]
                    found[record.offset] = {
                        "key": record.key,
                        "value": record.value,
                        "timestamp": datetime.fromtimestamp(record.timestamp / 1000, UTC),
                        "headers": headers or None,
                    }
    return found


def check(broker: Broker, offset_map: OffsetMap, rows: list[Row]) -> None:
    found, by_offset = written(broker), {row["offset"]: row for row in rows}
    places = {
        run.target_offset + n: run.source_offset + n
        for run in offset_map.runs()
        for n in range(run.records)
    }
    assert sorted(places.values()) == sorted(by_offset)
    assert sorted(places) == sorted(found)
    for offset, source in places.items():
        assert found[offset] | {"offset": source} == by_offset[source]


def options(
    goes_on: Callable[[], bool] = lambda: True, transaction_bytes: int = 2_000
) -> WriterOptions:
    return WriterOptions(
        group="restore",
        transactional_id="restore-t-0",
        transaction_bytes=transaction_bytes,
        pace=Pace(goes_on=goes_on),
    )


def test_rows_are_written_once_by_writers_that_are_killed(tmp_path: Path) -> None:
    rows, random = made_rows(400), Random(11)
    offset_map = OffsetMap(tmp_path / "offsets", PLACE)
    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        links.ready_topic("t", creates=True)
        while True:
            steps = iter(range(random.randrange(1, 60)))
            killed = random.choice(("put", "map", "commit"))

            def step(at: str, killed: str = killed, steps: Iterator[int] = steps) -> None:
                if at == killed and next(steps, None) is None:
                    raise KilledError

            try:
                with pytest.MonkeyPatch.context() as patched:
                    writer = TopicWriter(links, PLACE, offset_map, watched(patched, step))
                    assert writer.write(lambda offset: rows_from(rows, offset))
            except KilledError:
                continue
            break

        check(broker, offset_map, rows)
        again = TopicWriter(links, PLACE, offset_map, options())
        assert again.write(lambda offset: rows_from(rows, offset))
        assert again.rows == 0
        check(broker, offset_map, rows)


def watched(patched: pytest.MonkeyPatch, step: Callable[[str], None]) -> WriterOptions:
    """Say what a writer is at: behind each batch, before and after a line of the map and a commit."""
    add, commit = OffsetMap.add, TransactionalProducer.commit

    def watched_add(self: OffsetMap, *values: Any) -> None:
        step("map")
        add(self, *values)
        step("map")

    def watched_commit(self: TransactionalProducer, *values: Any) -> None:
        step("commit")
        commit(self, *values)
        step("commit")

    def goes_on() -> bool:
        step("put")
        return True

    patched.setattr(OffsetMap, "add", watched_add)
    patched.setattr(TransactionalProducer, "commit", watched_commit)
    return options(goes_on)


def test_a_writer_goes_on_where_it_was_told_to_stop(tmp_path: Path) -> None:
    rows, offset_map = made_rows(100), OffsetMap(tmp_path, PLACE)
    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        links.ready_topic("t", creates=True)
        first = TopicWriter(links, PLACE, offset_map, options(lambda: False))
        assert not first.write(lambda offset: rows_from(rows, offset))
        assert first.rows == 7
        second = TopicWriter(links, PLACE, offset_map, options())
        assert second.write(lambda offset: rows_from(rows, offset))
        assert second.rows == 93

        check(broker, offset_map, rows)


def test_batches_become_as_small_as_the_topic_takes_them(tmp_path: Path) -> None:
    rows, offset_map = made_rows(300), OffsetMap(tmp_path, PLACE)
    largest = {"max.message.bytes": "2000"}
    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
            admin.create_topics([NewTopic("t", 1, 1, topic_configs=largest)])
        writer = TopicWriter(links, PLACE, offset_map, options(transaction_bytes=1 << 30))

        assert writer.write(lambda offset: rows_from(rows, offset))

        check(broker, offset_map, rows)


@pytest.mark.parametrize("value", [b"", b"." * 300_000], ids=["small", "in several batches"])
def test_a_transaction_that_took_too_long_is_written_again(tmp_path: Path, value: bytes) -> None:
    rows, offset_map = made_rows(120), OffsetMap(tmp_path, PLACE)
    for row in rows:
        row["value"] = row["value"] and row["value"] + value
    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        links.ready_topic("t", creates=True)
        others = iter([None, None])

        def taken_over() -> bool:
            if next(others, True) is None:  # as the coordinator does when the time is over
                TransactionalProducer(
                    links,
                    WriterIdentity(transactional_id="restore-t-0", group="o", partition=PLACE),
                )
            return True

        writer = TopicWriter(links, PLACE, offset_map, options(taken_over, 1 << 30))
        assert writer.write(lambda offset: rows_from(rows, offset, 40))
        check(broker, offset_map, rows)


def test_the_map_is_right_where_a_batch_is_answered_for_later_than_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, offset_map = made_rows(40), OffsetMap(tmp_path, PLACE)
    for row in rows:
        row["value"] = (row["value"] or b"") + b"." * 300_000
    take, answers = BrokerLink.take, iter(range(1_000))

    def take_late(self: BrokerLink) -> tuple[Any, Any]:
        batch, answer = take(self)
        if isinstance(answer, ProduceResponse) and next(answers) == 3:
            (written,) = answer.responses[0].partition_responses
            written.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return batch, answer

    monkeypatch.setattr(BrokerLink, "take", take_late)
    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        links.ready_topic("t", creates=True)
        writer = TopicWriter(links, PLACE, offset_map, options(transaction_bytes=1 << 30))
        assert writer.write(lambda offset: rows_from(rows, offset, 40))
        check(broker, offset_map, rows)


def test_an_end_that_comes_late_does_not_end_the_next_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, offset_map = made_rows(60), OffsetMap(tmp_path, PLACE)
    for row in rows:
        row["value"] = (row["value"] or b"") + b"." * 300_000
    ask, late = ClusterLinks.ask, list[tuple[int, EndTxnRequest]]()

    def ask_late(self: ClusterLinks, node_id: int, request: Any) -> Any:
        if isinstance(request, EndTxnRequest) and offset_map.lines() and not late:
            late.append((node_id, request))
            raise TimeoutError("no answer")
        return ask(self, node_id, request)

    def deliver() -> bool:
        if late and len(offset_map.lines()) == 1:  # amid the second transaction
            with closing(ClusterLinks(broker.bootstrap)) as others:
                others.link(late[0][0]).ask(late[0][1])
        return True

    monkeypatch.setattr(ClusterLinks, "ask", ask_late)
    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        links.ready_topic("t", creates=True)
        writer = TopicWriter(links, PLACE, offset_map, options(deliver, 10_000_000))
        assert writer.write(lambda offset: rows_from(rows, offset, 20))
        assert late
        check(broker, offset_map, rows)


def test_nothing_stays_open_where_the_source_cannot_be_read(tmp_path: Path) -> None:
    rows, offset_map = made_rows(10), OffsetMap(tmp_path, PLACE)
    for row in rows:
        row["value"] = (row["value"] or b"") + b"." * 300_000

    def damaged(offset: int) -> Iterator[pa.RecordBatch]:
        yield from rows_from(rows, offset, 10)
        raise PipelineError("a file is damaged")

    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        view = links.ready_topic("t", creates=True)
        assert view is not None
        writer = TopicWriter(links, PLACE, offset_map, options(transaction_bytes=1 << 30))
        with pytest.raises(PipelineError, match="a file is damaged"):
            writer.write(damaged)

        def is_ended() -> bool:
            ends = [links.offsets(view, [0], LATEST, only_committed=only) for only in (True, False)]
            return ends[0] == ends[1] != {0: 0}

        until(is_ended, "ended before its time is over", timeout_s=25)
        assert written(broker) == {}


def test_a_group_that_forgot_the_first_transaction_is_told_from_one_that_has_none(
    tmp_path: Path,
) -> None:
    rows, offset_map = made_rows(14), OffsetMap(tmp_path, PLACE)
    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        links.ready_topic("t", creates=True)
        first = TopicWriter(links, PLACE, offset_map, options(lambda: False))
        assert not first.write(lambda offset: rows_from(rows, offset))
        delete_group(links, "restore")

        again = TopicWriter(links, PLACE, offset_map, options())
        with pytest.raises(PipelineError, match="has forgotten how far the restore was"):
            again.write(lambda offset: rows_from(rows, offset))
        check(broker, offset_map, rows[:7])


def test_a_topic_that_is_made_again_gets_no_part_of_the_rows(tmp_path: Path) -> None:
    rows, offset_map = made_rows(70), OffsetMap(tmp_path, PLACE)
    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        view = links.ready_topic("t", creates=True)
        assert view is not None
        turns = iter(range(10))

        def made_again() -> bool:
            if next(turns) == 3:
                admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
                admin.delete_topics(["t"])
                until(lambda: links.ready_topic("t") is None)
                admin.create_topics([NewTopic("t", 1, 1)])
                admin.close()
            return True

        into = replace(options(made_again), topic_id=view.topic_id)
        writer = TopicWriter(links, PLACE, offset_map, into)
        with pytest.raises(PipelineError, match="topic t was deleted and created again"):
            writer.write(lambda offset: rows_from(rows, offset))
        assert written(broker) == {}


def test_nobody_waits_within_a_transaction(tmp_path: Path) -> None:
    now_s, waits = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds
        waits.append(sum(line.records for line in offset_map.lines()))

    rows, offset_map = made_rows(21), OffsetMap(tmp_path, PLACE)
    pace = Pace(10.0, now_s=lambda: now_s, sleep=sleep)
    with Broker(settings=KEEPS_ALL) as broker, closing(ClusterLinks(broker.bootstrap)) as links:
        links.ready_topic("t", creates=True)
        slow = replace(options(), pace=pace, transaction_bytes=1 << 30)
        assert TopicWriter(links, PLACE, offset_map, slow).write(lambda at: rows_from(rows, at))

        assert set(waits) == {7, 14, 21}
        assert now_s > 100
        check(broker, offset_map, rows)
