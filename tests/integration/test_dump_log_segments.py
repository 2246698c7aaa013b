"""Kafka's own segment dump tool reads what is written here: batches, indexes, snapshots."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from compat_tests.apache_kafka import (
    NEWEST,
    ZOOKEEPER_LINE,
    NotAvailableError,
    jars,
    run_tool,
)
from compat_tests.conftest import BrokerProcess
from kbroker.log.log import Log
from kbroker.log.log_append_info import AppendOrigin
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
)
from tests.fakes.log_maker import NOW_MS, batch, open_log

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


def filled(directory: Path) -> Log:
    """Several segments: all codecs, an idempotent producer, a commit and an abort."""
    log = open_log(directory, segment_bytes=1500, index_interval_bytes=200)
    for index in range(30):
        value = b"%03d" % index * 30
        data = batch(value, value, timestamp=NOW_MS + index * 1000, compression=index % 5)
        log.append_as_leader(data, index // 10, NOW_MS)
    for sequence in range(3):
        data = batch(b"i", producer_id=7, producer_epoch=1, base_sequence=sequence)
        log.append_as_leader(data, 3, NOW_MS)
    for pid, commit in ((8, True), (9, False)):
        data = batch(
            b"t", flags=TRANSACTIONAL_BIT, producer_id=pid, producer_epoch=0, base_sequence=0
        )
        log.append_as_leader(data, 3, NOW_MS)
        options = BatchOptions(producer_id=pid, producer_epoch=0)
        marker = bytearray(build_marker(ControlRecord(commit, 0), NOW_MS, options=options))
        log.append_as_leader(marker, 3, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.flush()
    return log


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


def test_the_dump_tool_accepts_logs_indexes_and_snapshots(tmp_path: Path, dump: Dump) -> None:
    log = filled(tmp_path)
    bases = log.segments.base_offsets
    end_offset = log.log_end_offset
    log.close()

    batches = dump(list(tmp_path.glob("*.log")), "--deep-iteration")
    indexes = dump(list(tmp_path.glob("*index")), "--index-sanity-check")
    snapshots = dump(list(tmp_path.glob("*.snapshot")))
    aborted = dump(list(tmp_path.glob("*.txnindex")))

    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", batches, re.MULTILINE)]
    assert len(bases) > 3
    assert offsets == list(range(end_offset))
    assert "isvalid: false" not in batches.lower()
    assert batches.count("isvalid: true") == 30 + 3 + 4
    assert set(re.findall(r"compresscodec: (\w+)", batches)) == set(CODECS)
    assert indexes.count("passed sanity check") == 2 * len(bases)
    assert "ismatch" not in indexes
    assert "producerId: 7 producerEpoch: 1" in snapshots
    assert "producerId: 9 firstOffset: 65 lastOffset: 66 lastStableOffset: 67" in aborted


def test_the_dump_tool_finds_every_index_entry_right(tmp_path: Path, dump: Dump) -> None:
    log = filled(tmp_path)
    log.close()

    listing = dump(
        [*tmp_path.glob("*.index"), *tmp_path.glob("*.timeindex")], "--verify-index-only"
    )

    assert [complaint for complaint in COMPLAINTS if complaint in listing] == []
