"""All logs of a broker: data directories, locks, identity, creation, deletion, checkpoints, clean
and unclean stops.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_maker import NOW_MS, PARTITION, batch, manager
from tests.fakes.trees.memory_tree_files import FixedClock

TOPIC_ID = UUID(int=77)


def started(*directories: Path, **settings: object) -> LogManager:
    logs = manager(*directories, **settings)
    logs.load("cluster", 1)
    return logs


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    logs = started(tmp_path)
    yield logs
    logs.shutdown()


def test_a_new_directory_gets_an_identity(tmp_path: Path) -> None:
    directories = LogDirectories.lock(RealFileSystem(), [str(tmp_path / "a" / "b")])
    assert directories.meta is None
    directories.release()
    logs = manager(tmp_path / "a" / "b")

    logs.load("cluster", 7)

    text = (tmp_path / "a" / "b" / "meta.properties").read_text()
    assert "broker.id=7\nversion=0\ncluster.id=cluster\n" in text


def test_the_cluster_of_a_used_directory_is_known_after_open(tmp_path: Path) -> None:
    started(tmp_path).shutdown()

    meta = LogDirectories.lock(RealFileSystem(), [str(tmp_path)]).meta

    assert meta is not None
    assert (meta.cluster_id, meta.broker_id) == ("cluster", 1)


@pytest.mark.parametrize(
    ("cluster", "broker", "reason"),
    [("other", 1, "belongs to cluster cluster"), ("cluster", 2, "belongs to broker 1")],
)
def test_a_directory_of_another_broker_is_refused(
    tmp_path: Path, cluster: str, broker: int, reason: str
) -> None:
    started(tmp_path).shutdown()
    logs = manager(tmp_path)

    with pytest.raises(LogDirectoryError, match=reason):
        logs.load(cluster, broker)


def test_a_directory_in_use_is_refused(tmp_path: Path, logs: LogManager) -> None:
    with pytest.raises(LogDirectoryError, match="in use by another broker"):
        manager(tmp_path)


def test_directories_are_let_go_when_the_one_that_is_required_is_in_use(tmp_path: Path) -> None:
    used = started(tmp_path / "used")
    with pytest.raises(LogDirectoryError):
        manager(tmp_path / "free", tmp_path / "used", required=tmp_path / "used")

    manager(tmp_path / "free")
    used.shutdown()


def test_a_log_is_made_once_with_kafkas_files(tmp_path: Path, logs: LogManager) -> None:
    log = logs.get_or_create_log(PARTITION, TOPIC_ID)

    assert logs.get_or_create_log(PARTITION, TOPIC_ID) is log is logs.get_log(PARTITION)
    assert sorted(path.name for path in (tmp_path / "t-0").iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "partition.metadata",
    ]


def test_another_topic_id_is_inconsistent(logs: LogManager) -> None:
    logs.get_or_create_log(PARTITION, TOPIC_ID)

    with pytest.raises(KafkaError) as caught:
        logs.get_or_create_log(PARTITION, UUID(int=78))

    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_new_logs_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")

    for partition in range(4):
        logs.get_or_create_log(TopicPartition("t", partition))

    assert len(list((tmp_path / "a").glob("t-*"))) == len(list((tmp_path / "b").glob("t-*"))) == 2


def test_a_clean_stop_and_start_keeps_everything(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create_log(PARTITION, TOPIC_ID)
    log.append_as_leader(batch(b"a", b"b"), 3, NOW_MS)
    log.update_high_watermark(2)
    log.maybe_increment_log_start_offset(1)
    logs.write_high_watermarks({PARTITION: 2, TopicPartition("gone", 0): 9})
    logs.shutdown()
    assert (tmp_path / ".kafka_cleanshutdown").exists()

    again = manager(tmp_path)
    recovered = again.load("cluster", 1)

    loaded = again.get_log(PARTITION)
    assert loaded is not None
    assert recovered == []
    assert (loaded.log_start_offset, loaded.log_end_offset, loaded.offsets.recovery_point) == (
        1,
        2,
        2,
    )
    assert loaded.topic_id == TOPIC_ID
    assert again.read_high_watermarks() == {PARTITION: 2}
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_killed_broker_recovers(tmp_path: Path) -> None:
    logs = started(tmp_path / "a")
    logs.get_or_create_log(PARTITION).append_as_leader(batch(b"a"), 0, NOW_MS)
    shutil.copytree(tmp_path / "a", tmp_path / "b")

    again = manager(tmp_path / "b")
    recovered = again.load("cluster", 1)

    assert recovered == [PARTITION]
    assert not again.was_clean
    loaded = again.get_log(PARTITION)
    assert loaded is not None
    assert loaded.log_end_offset == 1


def test_a_deleted_log_is_renamed_and_removed_after_the_delay(tmp_path: Path) -> None:
    logs = started(tmp_path, file_delete_delay_ms=1000)
    log = logs.get_or_create_log(PARTITION)
    log.append_as_leader(batch(b"a"), 0, NOW_MS)

    assert logs.delete_log(PARTITION)
    assert not logs.delete_log(PARTITION)
    logs.finish_deletions()

    renamed = list(tmp_path.glob("t-0.*-delete"))
    assert len(renamed) == 1
    assert logs.get_log(PARTITION) is None
    list(logs.remove_due_files(NOW_MS + 999))
    assert renamed[0].exists()
    list(logs.remove_due_files(NOW_MS + 1000))
    assert not renamed[0].exists()


def test_a_log_whose_disk_refuses_its_deletion_is_not_taken_for_deleted() -> None:
    """A second order to delete it must fail as well: it would come back with the disk."""
    disk = FailingFileSystem(MemoryFileSystem())
    logs = LogManager(
        LogDirectories.lock(disk, ("/a",)), LogConfig, lambda _: TopicConfig(), disk, FixedClock()
    )
    logs.load("cluster", 1)
    logs.get_or_create_log(PARTITION)
    lost: list[TopicPartition] = []
    logs.on_directory_offline(lambda _path, partitions, _error: lost.extend(partitions))
    disk.fail("rename", "*/t-0", times=None)

    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            logs.delete_log(PARTITION)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    assert lost == [PARTITION]


def test_a_log_that_could_not_be_opened_is_not_taken_for_deleted() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    first = LogManager(
        LogDirectories.lock(disk, ("/a", "/b")),
        LogConfig,
        lambda _: TopicConfig(),
        disk,
        FixedClock(),
    )
    first.load("cluster", 1)
    first.get_or_create_log(PARTITION)
    first.shutdown()
    disk.fail("list", "*/t-0", times=None)
    logs = LogManager(
        LogDirectories.lock(disk, ("/a", "/b")),
        LogConfig,
        lambda _: TopicConfig(),
        disk,
        FixedClock(),
    )
    logs.load("cluster", 1)
    assert logs.get_log(PARTITION) is None

    with pytest.raises(KafkaError) as refused:
        logs.delete_log(PARTITION)

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_may_come_back_while_its_old_files_wait(logs: LogManager) -> None:
    logs.get_or_create_log(PARTITION).append_as_leader(batch(b"a"), 0, NOW_MS)
    logs.delete_log(PARTITION)

    assert logs.get_or_create_log(PARTITION).log_end_offset == 0


def test_a_log_made_anew_does_not_begin_with_the_high_watermark_of_the_old_one(
    tmp_path: Path,
) -> None:
    other = TopicPartition("t", 1)
    logs = started(tmp_path)
    for partition in (PARTITION, other):
        logs.get_or_create_log(partition).append_as_leader(batch(b"a", b"b"), 0, NOW_MS)
    logs.write_high_watermarks({PARTITION: 2, other: 2})

    logs.delete_log(PARTITION)
    logs.finish_deletions()
    logs.get_or_create_log(PARTITION).append_as_leader(batch(b"c"), 0, NOW_MS)
    logs.release()  # as after a crash

    assert started(tmp_path).read_high_watermarks() == {other: 2}


def test_a_deletion_a_crash_interrupted_is_finished(tmp_path: Path) -> None:
    doomed = tmp_path / f"t-0.{'0' * 32}-delete"
    doomed.mkdir()
    logs = started(tmp_path)

    logs.cleanup(NOW_MS)
    logs.cleanup(NOW_MS + 60_000)

    assert logs.all_logs() == []
    assert not doomed.exists()


def test_foreign_directories_are_left_alone_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("lost+found", "my-backup", "__cluster_metadata-0", f"t-0.{'0' * 32}-future"):
        (tmp_path / name).mkdir()
    with caplog.at_level(logging.WARNING):
        logs = started(tmp_path)

    assert logs.all_logs() == []
    assert len(list(tmp_path.iterdir())) >= 4
    (said,) = [text for text in caplog.messages if "Ignoring what is not a log" in text]
    assert "my-backup" in said
    assert "__cluster_metadata-0" not in said  # which an adoption has named


def test_a_log_that_cannot_be_opened_does_not_stop_the_others(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.get_or_create_log(PARTITION)
    logs.get_or_create_log(TopicPartition("bad", 0), TOPIC_ID)
    logs.shutdown()
    (tmp_path / "bad-0" / "partition.metadata").write_text("nonsense")

    again = started(tmp_path)

    assert [log.topic_partition for log in again.all_logs()] == [PARTITION]


@pytest.mark.parametrize(
    "file",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
    ],
)
def test_an_unreadable_checkpoint_counts_as_empty(tmp_path: Path, file: str) -> None:
    logs = started(tmp_path)
    logs.get_or_create_log(PARTITION).append_as_leader(batch(b"a"), 0, NOW_MS)
    logs.shutdown()
    (tmp_path / file).write_text("0\n9\n")

    again = started(tmp_path)

    log = again.get_log(PARTITION)
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    assert again.read_high_watermarks() == {}


def test_full_segments_and_due_logs_are_flushed(tmp_path: Path) -> None:
    logs = started(tmp_path, segment_bytes=200)
    log = logs.get_or_create_log(PARTITION)
    for _ in range(3):
        log.append_as_leader(batch(b"x" * 100), 0, NOW_MS)

    flushed = sum(logs.dirty.flush(NOW_MS))
    logs.checkpoint_recovery_points()

    assert (flushed, log.offsets.recovery_point) == (1, 2)
    text = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert text == "0\n1\nt 0 2\n"
    assert sum(logs.dirty.flush(NOW_MS)) == 0


def test_flush_messages_flushes_the_active_segment(tmp_path: Path) -> None:
    logs = started(tmp_path, flush_messages=2)
    log = logs.get_or_create_log(PARTITION)
    log.append_as_leader(batch(b"x"), 0, NOW_MS)
    first = sum(logs.dirty.flush(NOW_MS))
    log.append_as_leader(batch(b"x"), 0, NOW_MS)

    assert (first, sum(logs.dirty.flush(NOW_MS)), log.offsets.recovery_point) == (0, 1, 2)


def test_a_failed_disk_takes_its_directory_offline_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")
    first, second = (logs.get_or_create_log(TopicPartition("t", p)) for p in (0, 1))
    offline: list[tuple[str, list[TopicPartition]]] = []
    logs.on_directory_offline(lambda path, lost, _: offline.append((path, lost)))
    broken = first.segments.active.records

    def fail(self: object, data: object) -> int:
        raise StorageError(broken.path, "write", 5)

    with monkeypatch.context() as patch:
        patch.setattr(type(broken), "append", fail)
        with pytest.raises(KafkaError):
            first.append_as_leader(batch(b"x"), 0, NOW_MS)
    second.append_as_leader(batch(b"x"), 0, NOW_MS)
    logs.shutdown()

    assert offline == [(str(tmp_path / "a"), [TopicPartition("t", 0)])]
    assert logs.get_or_create_log is not None
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


def test_new_topic_settings_reach_open_logs(tmp_path: Path, logs: LogManager) -> None:
    log = logs.get_or_create_log(PARTITION)

    logs.update_topic_config("t", type(log.config)(max_message_bytes=5))

    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(b"x"), 0, NOW_MS)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_logs_of_topics_that_the_cluster_does_not_have_are_left_alone(tmp_path: Path) -> None:
    first = started(tmp_path)
    log = first.get_or_create_log(PARTITION, TOPIC_ID)
    log.append_as_leader(batch(b"v"), leader_epoch=0, now_ms=NOW_MS)
    first.shutdown()
    before = {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}

    logs = manager(tmp_path)
    logs.load("cluster", 1, is_known=lambda topic: topic != "t")
    logs.cleanup(NOW_MS + 10**12)

    assert logs.all_logs() == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()} == before
    logs.shutdown()


def test_a_new_topic_sets_the_logs_of_an_old_one_of_its_name_aside(tmp_path: Path) -> None:
    first = started(tmp_path / "a", tmp_path / "b")
    for partition in range(2):
        log = first.get_or_create_log(TopicPartition("t", partition), TOPIC_ID)
        log.append_as_leader(batch(b"v"), leader_epoch=0, now_ms=NOW_MS)
    first.shutdown()
    logs = manager(tmp_path / "a", tmp_path / "b")
    logs.load("cluster", 1, is_known=lambda _: False)

    new = logs.get_or_create_log(PARTITION, UUID(int=78))

    assert (new.topic_id, new.log_end_offset) == (UUID(int=78), 0)
    strays = sorted(path.name.partition(".")[0] for path in tmp_path.glob("?/*-stray"))
    assert strays == ["t-0", "t-1"]
    logs.shutdown()


def test_a_log_that_is_set_aside_keeps_its_files_and_is_not_opened_again(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create_log(PARTITION, TOPIC_ID)
    log.append_as_leader(batch(b"v"), leader_epoch=0, now_ms=NOW_MS)
    before = sorted(path.name for path in (tmp_path / "t-0").iterdir())

    logs.set_aside(PARTITION)
    new = logs.get_or_create_log(PARTITION, UUID(int=78))

    assert (new.log_end_offset, len(logs.strays.renamed)) == (0, 1)
    logs.cleanup(NOW_MS + 10**12)
    logs.cleanup(NOW_MS + 10**12)
    logs.shutdown()
    logs = started(tmp_path)
    assert [each.topic_id for each in logs.all_logs()] == [UUID(int=78)]
    (aside,) = tmp_path.glob("t-0.*-stray")
    assert sorted(path.name for path in aside.iterdir()) == before
    logs.shutdown()


def test_the_highest_producer_id_of_all_logs_is_known(logs: LogManager) -> None:
    assert logs.highest_producer_id(2**62) == -1

    for partition, producer_id in enumerate((7, 4000, 12)):
        log = logs.get_or_create_log(TopicPartition("t", partition))
        options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        log.append_as_leader(batch(b"v", **options), leader_epoch=0, now_ms=NOW_MS)

    assert logs.highest_producer_id(2**62) == 4000
    assert logs.highest_producer_id(4000) == 4000
    assert logs.highest_producer_id(3999) == 12
