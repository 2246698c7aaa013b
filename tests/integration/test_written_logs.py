"""Rows of an archive become a data directory that a broker takes over: clients find every record at
its offset, with its time, and logs begin and end where they did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as ClientPartition
from kafka.admin import KafkaAdminClient

from kbroker.cli.command_line import cli
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.ordered.ordered_reading import ordered_rows
from kbroker.pipeline.archiving.reader import ArchiveSelection
from kbroker.pipeline.restoring.logs.log_writing import LogWriting, WrittenLog
from kbroker.record.compression import CODEC_IDS
from tests.fakes.archives.arrow_records import BASE_MS, HOUR_MS, record, unplaced_batch
from tests.fakes.archives.parquet_archive import archive_rows
from tests.fakes.archives.written_logs import SMALL, directory, read_rows, shown
from tests.faults.running_broker import RunningBroker
from tests.integration import client_reads
from tests.integration.directory_writer import CREATE_TIME, LOG_APPEND_TIME, Row

TOPIC_ID = UUID("11111111-2222-4333-8444-555555555555")
LATE, STAMPED, EMPTY = (TopicPartition(name, 0) for name in ("t", "stamped", "empty"))
TIMEOUT_S = 10


@dataclass(frozen=True)
class Written:
    """What was written: by partition its rows, and where its log begins and ends."""

    broker: RunningBroker
    rows: dict[TopicPartition, list[dict[str, Any]]]
    bounds: dict[TopicPartition, tuple[int, int]]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker.port}"


def late_rows() -> list[dict[str, Any]]:
    """Rows of some hours, with holes, late records, and headers now and then."""
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    return [
        record(
            at,
            timestamp=BASE_MS + (at % 7) * HOUR_MS,
            key=None if at % 5 == 0 else b"k%d" % at,
            value=None if at % 11 == 0 else b"v%d" % at * 9,
            headers=headers if at % 6 == 0 else None,
        )
        for at in range(100, 1_000)
        if at % 10 not in (3, 4)
    ]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    root = tmp_path_factory.mktemp("written")
    rows = late_rows()
    archive, wanted = str(root / "archive"), ArchiveSelection(start_offset=203)
    entries = archive_rows(archive, rows[:300], rows[300:])
    assert len(entries) > 10
    stamped = [record(at, timestamp=BASE_MS + at // 9, timestampType=1) for at in range(500)]
    bounds = {LATE: (203, 1_010), STAMPED: (0, 500), EMPTY: (40, 50)}
    given = {
        LATE: ordered_rows(archive, entries, wanted),
        STAMPED: iter([unplaced_batch(stamped)]),
        EMPTY: iter([]),
    }
    codecs = {LATE: CODEC_IDS["zstd"], STAMPED: CODEC_IDS["lz4"], EMPTY: CODEC_IDS["gzip"]}
    with LogWriting(directory(str(root / "data"), **SMALL)) as writing:
        for partition, (start, end) in bounds.items():
            log = WrittenLog(
                partition=partition,
                start_offset=start,
                end_offset=end,
                topic_id=TOPIC_ID if partition == LATE else None,
                leader_epoch=4,
                codec=codecs[partition],
            )
            writing.open(log).write(given[partition])
    broker = RunningBroker(root / "data", "--adopt")
    chosen = [row for row in rows if row["offset"] >= 203]
    yield Written(broker, {LATE: chosen, STAMPED: stamped, EMPTY: []}, bounds)
    broker.end()


@pytest.fixture
def served(written: Written) -> Written:
    if not written.broker.port:
        written.broker.start()
    return written


def test_the_directory_is_sound_and_shows_the_rows(written: Written) -> None:
    done = CliRunner().invoke(cli, ["log", "verify", str(written.broker.data), "--strict"])

    assert done.exit_code == 0, done.output
    for partition, rows in written.rows.items():
        assert read_rows(RealFileSystem(), str(written.broker.data), partition) == shown(rows)


def test_a_client_reads_every_record(served: Written) -> None:
    found = client_reads.read_rows(served.bootstrap, served.rows, "read_committed")

    assert found == {partition: list(map(row_of, rows)) for partition, rows in served.rows.items()}


def row_of(row: dict[str, Any]) -> Row:
    kind = LOG_APPEND_TIME if row["timestampType"] == 1 else CREATE_TIME
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
    return Row(row["offset"], kind, row["timestamp"] // 1_000, row["key"], row["value"], headers)


def test_another_client_comes_to_the_end_of_each_log(served: Written) -> None:
    consumer = KafkaConsumer(bootstrap_servers=served.bootstrap, consumer_timeout_ms=3_000)
    places = {partition: ClientPartition(*partition) for partition in served.rows}
    consumer.assign(list(places.values()))
    consumer.seek_to_beginning()

    starts, ends = (ask(list(places.values())) for ask in (consumer.beginning_offsets,
                                                           consumer.end_offsets))  # fmt: skip
    found: dict[TopicPartition, list[int]] = {partition: [] for partition in served.rows}
    for message in consumer:
        found[TopicPartition(message.topic, message.partition)].append(message.offset)
    positions = {partition: consumer.position(place) for partition, place in places.items()}
    consumer.close()

    assert found == {p: [row["offset"] for row in rows] for p, rows in served.rows.items()}
    assert {p: (starts[place], ends[place]) for p, place in places.items()} == served.bounds
    assert positions == {partition: end for partition, (_, end) in served.bounds.items()}


def test_the_topic_keeps_its_id_and_goes_on_where_it_ended(served: Written) -> None:
    admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
    (described,) = admin.describe_topics(["t"])
    producer = KafkaProducer(bootstrap_servers=served.bootstrap)

    sent = producer.send("t", b"next", partition=0).get(TIMEOUT_S)

    producer.close()
    admin.close()
    assert sent.offset == served.bounds[LATE][1]
    assert UUID(str(described["topic_id"])) == TOPIC_ID
