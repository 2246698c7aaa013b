"""Apache Kafka opens data directories written here, after a clean stop and after a kill: nothing is
called damaged, a client reads every record back, and what Apache leaves is served here again.

Among the logs is one that was restored from an archive. While a restore is not at its end, Apache
does not start over its directory.

3.9.2 gets a ZooKeeper tree that belongs to the directory; 4.3.1 (KRaft) gets the partitions put into
topics made there.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE, jars
from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.shared_zookeeper import fresh_chroot
from kbroker.log.directories.unfinished_restore import RESTORE_FOLDER
from kbroker.log.disk.format import GAPLESS_OFFSET_CHECKPOINT_FILE
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record
from kbroker.record.record_batch import BatchHeader
from tests.golden import golden_logs
from tests.integration.apache_kraft import KraftCluster
from tests.integration.apache_tree import latest_epoch, partitions_by_topic, write_tree
from tests.integration.client_reads import read_committed_offsets, read_rows
from tests.integration.directory_writer import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIME,
    DirectoryWriter,
    Row,
    Rows,
    open_logs,
    overrides,
)
from tests.integration.log_reads import visible_records
from tests.integration.restored_log import restored_rows
from tests.integration.written_directory import COMMITTED, GROUP, write_everything, write_rows

pytestmark = pytest.mark.java

# 4.x refuses segments this small; it rolls none here anyway.
_NOT_IN_4 = ("segment_bytes", "segment_index_bytes")
# The leader epochs of the new cluster begin at 0, so it forgets the later ones it finds. After a kill
# every log is recovered, and the zeros at the end of a preallocated segment are cut, as Kafka cuts
# its own.
_FOREIGN_EPOCHS = r"LeaderEpochCache epochs-0\] New epoch entry"
_RECOVERY = r"Recovering (unflushed segment|\d+ logs)|preallocated-0[/,].*(invalid|Corruption)|invalid.*preallocated-0"
EXPECTED_COMPLAINTS = {
    "clean": re.compile(_FOREIGN_EPOCHS),
    "killed": re.compile(f"{_FOREIGN_EPOCHS}|{_RECOVERY}"),
}


@dataclass(frozen=True)
class Written:
    """Directories by how they were left, and what is in them."""

    directories: dict[str, Path]
    rows: Rows
    committed: Rows
    writer: DirectoryWriter


@dataclass(frozen=True)
class Opened:
    """What a run of Apache Kafka over one of them showed, and left in `directory`."""

    version: str
    state: str
    directory: Path
    rows: Rows
    committed: Rows
    offsets: dict[TopicPartition, int]
    complaints: list[str]


RUNS = [(version, state) for version in (ZOOKEEPER_LINE, NEWEST) for state in ("clean", "killed")]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp("written")
    writer = DirectoryWriter(root / "clean")
    write_everything(writer)
    write_rows(writer)
    writer.checkpoint()
    shutil.copytree(root / "clean", root / "killed")
    committed = {place: writer.committed_rows(place) for place in writer.rows}
    writer.close()
    directories = {"clean": root / "clean", "killed": root / "killed"}
    restored = restored_rows(root, list(directories.values()))
    return Written(directories, writer.rows | restored, committed | restored, writer)


@pytest.fixture(scope="module")
def kraft(written: Written, tmp_path_factory: pytest.TempPathFactory) -> KraftCluster:
    root = written.directories["clean"]
    settings = overrides(partitions_by_topic(root), without=_NOT_IN_4)
    return KraftCluster(root, tmp_path_factory.mktemp("kraft") / "data", settings)


@pytest.fixture(scope="module", params=RUNS, ids="-".join)
def opened(
    request: pytest.FixtureRequest, written: Written, tmp_path_factory: pytest.TempPathFactory
) -> Opened:
    version, state = request.param
    try:
        jars(version)
        jars(ZOOKEEPER_LINE)
    except NotAvailableError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("apache") / "data"
    shutil.copytree(written.directories[state], directory)
    if version == NEWEST:
        cluster: KraftCluster = request.getfixturevalue("kraft")
        cluster.place(directory)
        broker = cluster.broker
        seen = read_from(broker, written)
        cluster.take_back(directory)
    else:
        connect = fresh_chroot()
        write_tree(connect, directory, overrides(partitions_by_topic(directory)))
        broker = ApacheBroker(directory, connect)
        seen = read_from(broker, written)
        if state == "clean":
            check_not_opened_by_half(ApacheBroker(directory.parent / "half", connect))
    return Opened(version, state, directory, *seen, broker.complaints())


def check_not_opened_by_half(broker: ApacheBroker) -> None:
    (broker.data / RESTORE_FOLDER).mkdir(parents=True)
    with pytest.raises(RuntimeError, match=f"(?s){RESTORE_FOLDER}.*form of topic-partition"):
        broker.start()


def read_from(
    broker: ApacheBroker, written: Written
) -> tuple[Rows, Rows, dict[TopicPartition, int]]:
    broker.start()
    try:
        return (
            read_rows(broker.bootstrap, written.rows, "read_uncommitted"),
            read_rows(broker.bootstrap, written.rows, "read_committed"),
            read_committed_offsets(broker.bootstrap, GROUP, written.rows),
        )
    finally:
        broker.stop()


def rows_of(logs: LogManager, places: Iterable[TopicPartition], isolation: FetchIsolation) -> Rows:
    return {
        place: [row_of(header, record) for header, record in visible_records(log, isolation)]
        for place in places
        if (log := logs.get_log(place)) is not None
    }


def row_of(header: BatchHeader, record: Record) -> Row:
    kind = (CREATE_TIME, LOG_APPEND_TIME)[header.timestamp_type] if header.magic else NO_TIME
    return Row(record.offset, kind, *record[1:])


def test_a_client_reads_every_record_back(opened: Opened, written: Written) -> None:
    assert sum(map(len, opened.rows.values())) > 1500
    assert opened.rows == written.rows
    assert opened.committed == written.committed


def test_the_group_finds_its_offset(opened: Opened) -> None:
    assert opened.offsets == {TopicPartition("codec-gzip", 0): COMMITTED}


def test_nothing_is_called_damaged(opened: Opened) -> None:
    expected = EXPECTED_COMPLAINTS[opened.state]

    assert [line for line in opened.complaints if not expected.search(line)] == []


def test_the_same_is_served_here_afterwards(
    opened: Opened, written: Written, tmp_path: Path
) -> None:
    root = shutil.copytree(opened.directory, tmp_path / "data")
    logs = open_logs(root, written.writer.clock)

    rows = rows_of(logs, written.rows, FetchIsolation.HIGH_WATERMARK)
    committed = rows_of(logs, written.rows, FetchIsolation.TXN_COMMITTED)
    logs.shutdown()

    assert rows == written.rows
    assert committed == written.committed


def test_apache_leaves_the_bytes_that_a_restart_here_leaves(
    opened: Opened, written: Written, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    shutil.copytree(written.directories[opened.state], root)
    epochs = {path.name: latest_epoch(path) for path in root.glob("*-*/")}

    logs = open_logs(root, written.writer.clock)
    for log in logs.all_logs():  # what becoming leader and the replica manager's stop do
        epoch = epochs[Path(log.directory).name]
        log.leader_epoch_cache.assign(epoch, log.log_end_offset)
    logs.write_high_watermarks({log.topic_partition: log.high_watermark for log in logs.all_logs()})
    logs.shutdown()

    here, there = golden_logs.digests(root), golden_logs.digests(opened.directory)
    differing = {name for name in here | there if here.get(name) != there.get(name)}
    assert {name for name in differing if not is_decided_elsewhere(opened, name)} == set()


def is_decided_elsewhere(opened: Opened, name: str) -> bool:
    """With KRaft leader epochs are those of the cluster, and the marker names the broker's epoch.
    A file that is not Kafka's stays where Kafka took over from a broker that was killed.
    """
    of_kraft = (".kafka_cleanshutdown", "leader-epoch-checkpoint", "bootstrap.checkpoint")
    if opened.state == "killed" and name == GAPLESS_OFFSET_CHECKPOINT_FILE:
        return True
    return opened.version == NEWEST and name.endswith(of_kraft)
