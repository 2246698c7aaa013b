"""Kafka's own segment dump tool reads what is written here: batches, indexes, snapshots."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from compat_tests.commands.tool_runner import run_tool
from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE, jars
from compat_tests.running.prerequisites import NotAvailableError
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.model import TopicPartition
from tests.integration.directory_writer import DirectoryWriter, KnownProducer, Row
from tests.integration.written_directory import write_everything

TOOLS = {
    NEWEST: "org.apache.kafka.tools.DumpLogSegments",
    ZOOKEEPER_LINE: "kafka.tools.DumpLogSegments",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPLAINTS = ("Mismatches in", "Found timestamp", "Index file", "out of order", "non-consecutive")
BROKER_SETTINGS = ("log.segment.bytes=10000", "log.index.interval.bytes=512")
RECORDS = 100  # per codec and run

pytestmark = pytest.mark.java

Dump = Callable[..., str]


@pytest.fixture(params=sorted(TOOLS))
def dump(request: pytest.FixtureRequest) -> Dump:
    """Runs the tool of one version over files of one kind; what it prints."""
    version: str = request.param
    try:
        jars(version)
    except NotAvailableError as error:
        pytest.skip(str(error))

    def run(files: list[Path], *options: str) -> str:
        names = ",".join(str(file) for file in sorted(files))
        done = run_tool(TOOLS[version], "--files", names, *options, version=version)
        assert done.returncode == 0, done.stderr
        assert "Exception" not in done.stderr, done.stderr
        return done.stdout

    return run


def written(directory: Path) -> Path:
    """The data directory of a broker that stopped, was killed and stopped, after clients wrote."""
    broker = BrokerProcess(
        directory / "data", ("--override", BROKER_SETTINGS[0], "--override", BROKER_SETTINGS[1])
    )
    for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        broker.start()
        produce(broker.bootstrap)
        consume(broker.bootstrap)
        broker.stop(how)
    return broker.data


def produce(bootstrap: str) -> None:
    """All codecs by two libraries, one of them idempotent."""
    for codec in CODECS:
        plain = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            batch_size=2_000,
            linger_ms=5,
        )
        idempotent = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "batch.size": 2_000,
            }
        )
        for number in range(RECORDS):
            value = b"%d" % number * 50
            plain.send("plain", value, key=b"k", headers=[("h", b"v")])
            idempotent.produce("idempotent", value)
        plain.close()
        assert idempotent.flush(30) == 0


def consume(bootstrap: str) -> None:
    """Commit one offset in a group."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["plain"])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None
    consumer.commit(message, asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("broker"))


def test_the_dump_tool_accepts_what_clients_wrote(data_directory: Path, dump: Dump) -> None:
    logs = [*data_directory.glob("plain-0/*.log"), *data_directory.glob("idempotent-0/*.log")]
    indexes = [*data_directory.glob("*-0/*.index"), *data_directory.glob("*-0/*.timeindex")]

    batches = dump(logs, "--deep-iteration", "--print-data-log")
    checked = dump(indexes, "--index-sanity-check")
    verified = dump(indexes, "--verify-index-only")
    snapshots = dump(list(data_directory.glob("idempotent-0/*.snapshot")))

    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", batches, re.MULTILINE)]
    assert len(logs) > 4
    assert sorted(offsets) == sorted([*range(3 * 5 * RECORDS)] * 2)
    assert "isvalid: false" not in batches.lower()
    assert set(re.findall(r"compresscodec: (\w+)", batches)) == set(CODECS)
    assert len(re.findall(r"passed sanity check|is empty", checked)) == len(indexes)
    assert [complaint for complaint in COMPLAINTS if complaint in verified] == []
    assert "lastOffset: 1499" in snapshots


def test_the_dump_tool_decodes_committed_offsets(data_directory: Path, dump: Dump) -> None:
    logs = list(data_directory.glob("__consumer_offsets-*/*.log"))

    listing = dump(logs, "--offsets-decoder")

    assert listing.count('"topic":"plain"') >= 3
    assert '"protocolType":"consumer"' in listing


@pytest.fixture(scope="module")
def written_here(tmp_path_factory: pytest.TempPathFactory) -> DirectoryWriter:
    """A directory with everything a log can hold, stopped cleanly."""
    writer = DirectoryWriter(tmp_path_factory.mktemp("written") / "data")
    write_everything(writer)
    writer.close()
    return writer


def test_the_dump_tool_prints_every_record_that_was_written(
    written_here: DirectoryWriter, dump: Dump
) -> None:
    logs = list(written_here.root.glob("*-*/*.log"))

    listing = dump(logs, "--deep-iteration", "--print-data-log")

    assert "isvalid: false" not in listing.lower()
    found = dumped_records(listing)
    deleted = {"records-deleted", "all-deleted"}  # what is below the log start is dumped too
    wanted = {
        (f"{topic}-{partition}", dumped(row))
        for (topic, partition), rows in written_here.rows.items()
        for row in rows
    }
    assert len(wanted) > 1500
    assert wanted - found == set()
    assert {name.rpartition("-")[0] for name, _ in found - wanted} <= deleted


def test_the_dump_tool_finds_no_gap_but_those_that_were_made(
    written_here: DirectoryWriter, dump: Dump
) -> None:
    with_gaps = ("gaps-", "compacted-")
    logs = [
        path
        for path in written_here.root.glob("*-*/*.log")
        if not path.parent.name.startswith(with_gaps)
    ]

    listing = dump(logs, "--deep-iteration")

    # The tool begins every file at -1, and some formats make it say so.
    gaps = re.findall(r"^ +(\d+) is followed by (\d+)", listing, re.MULTILINE)
    assert gaps == []


def test_the_dump_tool_finds_every_index_sound_and_every_entry_right(
    written_here: DirectoryWriter, dump: Dump
) -> None:
    indexes = [
        *written_here.root.glob("*-*/*.index"),
        *written_here.root.glob("*-*/*.timeindex"),
    ]

    checked = dump(indexes, "--index-sanity-check")
    verified = dump(indexes, "--verify-index-only")
    entries = dump(indexes)

    assert len(indexes) > 130
    assert len(re.findall(r"passed sanity check|is empty", checked)) == len(indexes)
    assert [complaint for complaint in COMPLAINTS if complaint in verified + entries] == []
    assert len(re.findall(r"^offset: |^timestamp: ", entries, re.MULTILINE)) > 400


def test_the_dump_tool_reads_what_is_known_of_producers(
    written_here: DirectoryWriter, dump: Dump
) -> None:
    topics = [TopicPartition("txn", 0), TopicPartition("idempotent", 0)]
    newest = {topic: max(written_here.root.glob(f"{topic.topic}-0/*.snapshot")) for topic in topics}

    found = {topic: dumped_producers(dump([path])) for topic, path in newest.items()}

    assert found == {topic: set(written_here.producers[topic].values()) for topic in topics}


def test_the_dump_tool_reads_what_was_aborted(written_here: DirectoryWriter, dump: Dump) -> None:
    listing = dump(list(written_here.root.glob("txn-0/*.txnindex")))

    pattern = r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    found = [AbortedTxn(*map(int, numbers)) for numbers in re.findall(pattern, listing)]
    assert found == written_here.aborted[TopicPartition("txn", 0)]
    assert len(found) == 10


DumpedRecord = tuple[int, str, int, int, int, tuple[str, ...]]


def dumped(row: Row) -> DumpedRecord:
    """A record as far as the tool prints it in a form that can be told from other text."""
    kind = ("NoTimestampType", "CreateTime", "LogAppendTime")[row.timestamp_type]
    key_size = -1 if row.key is None else len(row.key)
    value_size = -1 if row.value is None else len(row.value)
    names = tuple(name for name, _ in row.headers)
    return row.offset, kind, row.timestamp, key_size, value_size, names


def dumped_records(listing: str) -> set[tuple[str, DumpedRecord]]:
    """(partition directory, record) of every data record that the tool printed."""
    found = set()
    for part in listing.split("Dumping ")[1:]:
        name = Path(part.partition("\n")[0]).parent.name
        pattern = (
            r"^\| offset: (\d+) (\w+): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+)"
            r"(?!.* endTxnMarker: )(?:.* headerKeys: \[([^\]]*)\])?"
        )
        for offset, kind, time_ms, key, value, names in re.findall(pattern, part, re.MULTILINE):
            headers = tuple(names.split(",")) if names else ()
            found.add((name, (int(offset), kind, int(time_ms), int(key), int(value), headers)))
    return found


def dumped_producers(listing: str) -> set[KnownProducer]:
    """The entries of a producer snapshot."""
    pattern = (
        r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) "
        r"currentTxnFirstOffset: (\S+) .*?lastSequence: (\d+) lastOffset: (\d+)"
    )
    return {
        KnownProducer(
            int(producer_id),
            int(epoch),
            int(sequence),
            int(offset),
            int(coordinator),
            int(re.findall(r"\d+", first)[0]) if "[" in first else -1,
        )
        for producer_id, epoch, coordinator, first, sequence, offset in re.findall(pattern, listing)
    }
