"""DeleteRecords and DescribeLogDirs over real logs: what goes from the disk, and what a killed
broker still knows.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.apis import delete_records, describe_log_dirs
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.running.virtual_time import VirtualTime

HOUR_MS = 3_600_000


class Broker:
    """Segments of two batches of one topic, in a directory that stays."""

    def __init__(self, directory: Path) -> None:
        self.disk = FailingFileSystem(RealFileSystem())
        config = KafkaConfig.for_profile("dev")
        self.time = VirtualTime()
        size = len(batch(b"v"))
        settings = {"segment.bytes": str(2 * size)}
        self.logs = LogManager(
            LogDirectories.lock(self.disk, [str(directory)]),
            lambda: config.log,
            lambda topic: TopicConfig.from_overrides(config, settings),
            self.disk,
            self.time,
        )
        self.logs.load("cluster", 0)
        self.cluster = ReplicationCluster(log_manager=self.logs)
        self.partition = self.cluster.lead("t")
        self.call = ApiCaller(self.cluster)

    def append(self, count):
        now_ms = self.time.now_ms()
        for _ in range(count):
            view = batch(b"v", timestamp=now_ms)
            self.cluster.replicas.appends.append_records(
                [(self.partition.topic_partition, view)], 1, 0
            )

    def delete(self, offset):
        partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
        answer = self.call(delete_records.handle, request, 2).topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    def kill(self):
        """Nothing is written any more; the lock goes with the process."""
        self.logs.release()
        self.cluster.close()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "t-0").glob("*.log*"))


@pytest.mark.parametrize("offset", [5, 8, 10])
def test_a_killed_broker_still_knows_where_its_log_starts(tmp_path: Path, offset: int) -> None:
    broker = Broker(tmp_path)
    broker.append(10)

    told = broker.delete(offset)
    broker.kill()
    again = Broker(tmp_path)

    assert told == (0, offset)
    assert (again.partition.log_start_offset, again.partition.log_end_offset) == (offset, 10)
    again.kill()


@pytest.mark.parametrize(
    ("operation", "pattern", "number"),
    [
        ("write", "*/log-start-offset-checkpoint*", errno.ENOSPC),
        ("open", "*/log-start-offset-checkpoint*", errno.EMFILE),
        ("open", "*/t-0/*", errno.EMFILE),  # the records up to the new start cannot be synced
    ],
)
def test_records_whose_deletion_cannot_be_written_down_stay_and_the_answer_says_so(
    tmp_path: Path, operation: str, pattern: str, number: int
) -> None:
    """Apache Kafka answers the same where a log directory does not take what has to be kept."""
    broker = Broker(tmp_path)
    broker.append(10)
    broker.disk.fail(operation, pattern, number=number, times=None)

    told = broker.delete(5)
    shown = broker.partition.log_start_offset
    broker.kill()
    again = Broker(tmp_path)

    assert told == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert shown == again.partition.log_start_offset == 0
    assert again.delete(5) == (0, 5)
    again.kill()


def test_a_deletion_that_was_refused_is_accepted_when_there_is_room(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.append(10)
    broker.disk.fail("write", "*/log-start-*", number=errno.ENOSPC, times=None)
    refused = broker.delete(5)
    broker.disk.heal()

    told = broker.delete(5)
    broker.logs.checkpoint_log_start_offsets()
    broker.kill()
    again = Broker(tmp_path)

    assert (refused[0], told) == (ErrorCode.KAFKA_STORAGE_ERROR, (0, 5))
    assert again.partition.log_start_offset == 5
    again.kill()


def test_a_start_that_is_being_written_is_in_every_later_checkpoint(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.append(10)
    waiting: list[tuple[Callable[[], None], object]] = []
    written: list[frozenset[TopicPartition]] = []
    broker.logs.write_with(lambda work, done: waiting.append((work, done)))
    topic_partition = broker.partition.topic_partition

    broker.logs.checkpoints.write_log_starts({topic_partition: 5}, written.append)
    broker.logs.checkpoint_log_start_offsets()
    for work, _ in waiting:
        work()

    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 5\n"
    assert broker.partition.log_start_offset == 0
    assert not written
    broker.kill()


def test_segments_before_the_new_start_go_with_the_next_cleanup(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.append(10)

    broker.delete(5)
    before = names(tmp_path)
    broker.logs.cleanup(broker.time.now_ms())
    renamed = names(tmp_path)
    broker.logs.cleanup(broker.time.now_ms() + HOUR_MS)

    kept = [f"{base:020d}.log" for base in (4, 6, 8)]
    gone = [f"{base:020d}.log" for base in (0, 2)]
    assert before == gone + kept
    assert renamed == sorted([f"{name}.deleted" for name in gone] + kept)
    assert names(tmp_path) == kept
    assert broker.partition.log_start_offset == 5
    broker.kill()


def test_deleting_everything_leaves_an_empty_log_at_its_end(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.append(9)

    broker.delete(-1)
    broker.logs.cleanup(broker.time.now_ms())
    broker.append(1)
    broker.kill()
    again = Broker(tmp_path)

    assert (again.partition.log_start_offset, again.partition.log_end_offset) == (9, 10)
    again.kill()


def test_the_described_size_is_that_of_the_segment_files(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.append(5)

    (described,) = broker.call(
        describe_log_dirs.handle, DescribeLogDirsRequest(topics=None), 4
    ).results

    size = sum(path.stat().st_size for path in (tmp_path / "t-0").glob("*.log"))
    assert described.log_dir == str(tmp_path)
    assert described.topics[0].partitions[0].partition_size == size > 0
    assert 0 < described.usable_bytes <= described.total_bytes
    broker.kill()
