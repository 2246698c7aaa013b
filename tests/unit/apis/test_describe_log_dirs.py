from __future__ import annotations

from types import SimpleNamespace

import pytest

from kbroker.apis.describe_log_dirs import handle
from kbroker.errors import ErrorCode
from kbroker.log.disk.file_system import StorageError
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

pytestmark = pytest.mark.usefixtures("small_or_large")


class Volume:
    """A file system that knows sizes only; `broken` refuses."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken

    def total_bytes(self, path):
        if self.broken:
            raise StorageError(path, "stat volume", 5)
        return 1000

    def free_bytes(self, path):
        return 400


def directory(path="/data", failure=None, broken=False):
    return SimpleNamespace(path=path, failure=failure, file_system=Volume(broken))


def ask(*wanted):
    """`wanted` are (topic, partitions)."""
    return DescribeLogDirsRequest(
        topics=[
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=partitions)
            for topic, partitions in wanted
        ]
    )


ALL = DescribeLogDirsRequest(topics=None)


def shown(result):
    return [
        (topic.name, p.partition_index, p.partition_size, p.offset_lag, p.is_future_key)
        for topic in result.topics
        for p in topic.partitions
    ]


@pytest.fixture
def filled(cluster):
    cluster.log_manager.data_directories = [directory()]
    partition = cluster.lead("t")
    cluster.lead("t", 1)
    cluster.lead("u")
    cluster.append(partition, b"a", b"b")
    return partition


def test_all_replicas_are_described_with_their_size(filled, call):
    (result,) = call(handle, ALL, 4).results

    size = len(filled.log.batches[0][2])
    assert shown(result) == [("t", 0, size, 0, False), ("t", 1, 0, 0, False), ("u", 0, 0, 0, False)]
    assert (result.error_code, result.log_dir) == (0, "/data")
    assert (result.total_bytes, result.usable_bytes) == (1000, 400)


def test_only_what_is_asked_for_is_described(filled, call):
    (result,) = call(handle, ask(("t", [1, 7]), ("missing", [0])), 4).results

    assert shown(result) == [("t", 1, 0, 0, False)]


def test_a_missing_topic_leaves_the_directory_without_topics(filled, call):
    answer = call(handle, ask(("missing", [0])), 4)

    assert (answer.error_code, [result.topics for result in answer.results]) == (0, [[]])


def test_nothing_asked_for_leaves_the_directories_with_their_space(filled, call):
    (result,) = call(handle, ask(), 4).results

    assert (result.topics, result.usable_bytes) == ([], 400)


def test_a_replica_behind_its_high_watermark_lags(filled, call):
    filled.log.high_watermark = 5

    assert shown(call(handle, ask(("t", [0])), 4).results[0])[0][3] == 3


def test_a_replica_that_is_not_online_has_no_known_lag(cluster, filled, call):
    cluster.replicas.leadership.partitions_offline([filled.topic_partition])

    assert shown(call(handle, ask(("t", [0])), 4).results[0])[0][3] == -1


@pytest.mark.parametrize(
    "failed",
    [
        directory("/data", failure=StorageError("/data", "fsync", 5)),
        directory("/data", broken=True),
    ],
)
def test_an_offline_directory_has_its_error_and_no_content(cluster, filled, call, failed):
    cluster.log_manager.data_directories = [directory("/other"), failed]

    other, offline = call(handle, ALL, 4).results

    assert (other.error_code, other.log_dir, other.topics) == (0, "/other", [])
    assert offline.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (offline.log_dir, offline.topics) == ("/data", [])
    assert (offline.total_bytes, offline.usable_bytes) == (-1, -1)


def test_paths_are_absolute(cluster, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cluster.log_manager.data_directories = [directory("data")]

    assert call(handle, ALL, 4).results[0].log_dir == f"{tmp_path}/data"


@pytest.mark.parametrize("version", range(6))
def test_every_version_can_be_answered(filled, call, version):
    assert encode(call(handle, ALL, version), version)
