"""No descriptor is free at one moment of a broker's storage after the other: what it was doing is
refused and done later, nothing goes offline, and memory and disk say the same.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.tree import TreeUnavailableError
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_maker import NOW_MS, batch, read_values
from tests.fakes.running.virtual_time import VirtualTime
from tests.faults.crash_storage import finish

KEPT, DOOMED, LATE = TopicPartition("kept", 0), TopicPartition("doomed", 0), TopicPartition("l", 0)
NEEDS_DESCRIPTOR = ("open", "list")
SETTINGS = TopicConfig(
    segment_bytes=400, segment_index_bytes=256, index_interval_bytes=0, file_delete_delay_ms=10
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Storage:
    """Logs and a tree in two directories."""

    def __init__(self, disk: FileSystem) -> None:
        self.time = VirtualTime(NOW_MS)
        config = LogConfig()
        self.logs = LogManager(
            LogDirectories.lock(disk, ["/a", "/b"]),
            lambda: config,
            lambda _: SETTINGS,
            disk,
            self.time,
        )
        self.tree = EmbeddedTree(self.time, TreeDirectory(disk, "/a"))
        self.session = self.tree.session()
        self.logs.load("cluster", 0)
        self.values: dict[TopicPartition, list[bytes]] = {}

    def append(self, where: TopicPartition, value: bytes) -> None:
        log = self.logs.get_or_create_log(where)
        data = batch(value, producer_id=7, producer_epoch=0, base_sequence=log.log_end_offset)
        log.append_as_leader(data, len(value) % 3 + log.log_end_offset // 3, self.time.now_ms())
        log.update_high_watermark(log.log_end_offset)
        self.values.setdefault(where, []).append(value)

    def delete_records(self, where: TopicPartition, offset: int) -> None:
        log = self.logs.get_or_create_log(where)
        refused: list[frozenset[TopicPartition]] = []
        self.logs.checkpoints.write_log_starts({where: offset}, refused.append)
        if where in refused[0]:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "not written")
        log.maybe_increment_log_start_offset(offset)

    def delete(self, where: TopicPartition) -> None:
        failed: list[frozenset[TopicPartition]] = []
        self.logs.delete_log(where)
        self.logs.finish_deletions(failed.append)
        if where in failed[0]:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "not on the disk")

    def look_after(self) -> None:
        """All that a broker does from time to time; nobody waits for an answer."""
        self.time.advance(1_000)
        now_ms = self.time.now_ms()
        self.logs.cleanup(now_ms)
        list(self.logs.dirty.flush(now_ms))
        self.logs.checkpoint_recovery_points()
        self.logs.checkpoint_log_start_offsets()
        self.logs.write_high_watermarks({KEPT: 3})
        self.logs.look_after_directories()

    def truncate(self, where: TopicPartition, offset: int) -> None:
        self.logs.get_or_create_log(where).truncate_to(offset, self.time.now_ms())
        del self.values[where][offset:]

    def create_node(self, path: str) -> None:
        finish(self.session.create(path, b"x"))

    def steps(self) -> list[Callable[[], None]]:
        """A life in which everything happens once."""
        return [
            *[lambda n=n: self.append(KEPT, b"k%d" % n * 30) for n in range(6)],  # type: ignore[misc]
            *[lambda n=n: self.append(DOOMED, b"d%d" % n * 30) for n in range(3)],  # type: ignore[misc]
            lambda: self.create_node("/one"),
            self.look_after,
            lambda: self.truncate(KEPT, 4),
            *[lambda n=n: self.append(KEPT, b"n%d" % n * 30) for n in range(4)],  # type: ignore[misc]
            lambda: self.delete_records(KEPT, 5),
            lambda: self.delete(DOOMED),
            self.look_after,
            lambda: self.append(LATE, b"late"),
            lambda: self.values.pop(DOOMED) and None,
            lambda: self.append(DOOMED, b"again"),
            lambda: self.create_node("/two"),
            self.look_after,
        ]

    def found(self) -> dict[TopicPartition, tuple[int, list[bytes | None]]]:
        """Return what readers see: the start of each log, and its values."""
        return {
            log.topic_partition: (
                log.log_start_offset,
                [v for s in log.segments for v in read_values(s.records.read(0, s.size_bytes))][
                    log.log_start_offset - log.segments[0].base_offset :
                ],
            )
            for log in self.logs.all_logs()
        }


def life(disk: FailingFileSystem, at: int, times: int) -> tuple[Storage, int]:
    """All steps, with the descriptors gone for some calls; how many calls there were."""
    storage = Storage(disk)
    fault = [
        disk.fail(operation, number=errno.EMFILE, at=at, times=times)
        for operation in NEEDS_DESCRIPTOR
    ]
    for step in storage.steps():
        try:
            step()
        except (KafkaError, StorageError, TreeUnavailableError):
            disk.heal()
            step()
    disk.heal()
    return storage, max(f.calls for f in fault)


@pytest.mark.parametrize("times", [1, 4, None], ids=["one call", "four calls", "until it is told"])
def test_every_step_is_done_once_there_are_descriptors_again(times: int | None) -> None:
    untouched, calls = life(FailingFileSystem(MemoryFileSystem()), 1 << 30, 1)
    expected = untouched.found()
    assert expected[KEPT][0] == 5
    assert calls > 100

    for at in range(1, calls + 1):
        disk = FailingFileSystem(MemoryFileSystem())
        storage, _ = life(disk, at, times)  # type: ignore[arg-type]
        storage.look_after()
        storage.look_after()

        assert storage.logs.online_directories == ["/a", "/b"], at
        assert storage.found() == expected, at
        assert [log.failure for log in storage.logs.all_logs()] == [None] * 3, at
        storage.logs.release()  # killed: what the disk says is what memory said
        storage.tree.close()
        again = Storage(disk)
        assert again.found() == expected, at
        assert [path for path, _, _ in again.tree.dump()] == ["/", "/one", "/two"], at
        directories = [*disk.list("/a"), *disk.list("/b")]
        logs = sorted(n for n in directories if "-0" in n and not n.startswith("kbroker"))
        assert logs == ["doomed-0", "kept-0", "l-0"], at
