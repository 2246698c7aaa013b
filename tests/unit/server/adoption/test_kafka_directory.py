"""What another broker left in a data directory, as found without touching it."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kbroker.log.disk.checkpoint import (
    CheckpointError,
    EpochEntry,
    write_leader_epochs,
    write_partition_metadata,
)
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.record.record_batch import BatchOptions, Record, build
from kbroker.server.adoption.kafka_directory import (
    FoundDirectory,
    FoundPartition,
    look_at_directory,
)

FILES = RealFileSystem()
TOPIC_ID = UUID(int=5)


def look(path: Path) -> FoundDirectory:
    return look_at_directory(FILES, str(path))


def partition(path: Path, name: str = "orders-0", *, log: bytes = b"") -> Path:
    directory = path / name
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(log)
    return directory


def only(found: FoundDirectory) -> FoundPartition:
    (partition,) = found.partitions
    return partition


def batch(leader_epoch: int, base_offset: int = 0) -> bytes:
    options = BatchOptions(partition_leader_epoch=leader_epoch)
    return build([Record(base_offset, 1, None, b"v")], base_offset=base_offset, options=options)


def test_a_missing_directory_holds_nothing(tmp_path: Path) -> None:
    assert look(tmp_path / "new") == FoundDirectory(path=str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_partition_tells_its_id_and_epoch(tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").touch()
    directory = partition(tmp_path, "a.b-c-12", log=batch(9))
    write_partition_metadata(FILES, str(directory), TOPIC_ID)
    write_leader_epochs(FILES, str(directory), [EpochEntry(0, 0), EpochEntry(4, 7)])

    found = only(look(tmp_path))

    assert found.topic_partition == TopicPartition("a.b-c", 12)
    assert (found.topic_id, found.leader_epoch, found.problem) == (TOPIC_ID, 4, None)


def test_after_an_unclean_stop_the_batches_tell_the_epoch_too(tmp_path: Path) -> None:
    torn = batch(8, base_offset=2)[:-1]
    directory = partition(tmp_path, log=batch(3) + batch(6, base_offset=1) + torn)
    write_leader_epochs(FILES, str(directory), [EpochEntry(3, 0)])

    assert only(look(tmp_path)).leader_epoch == 6


@pytest.mark.parametrize("text", [None, "no checkpoint"])
def test_without_a_checkpoint_the_batches_tell_the_epoch(tmp_path: Path, text: str | None) -> None:
    (tmp_path / ".kafka_cleanshutdown").touch()
    directory = partition(tmp_path, log=batch(3))
    (directory / f"{1:020d}.log").touch()  # rolled, nothing in it yet
    if text is not None:
        (directory / "leader-epoch-checkpoint").write_text(text)

    assert only(look(tmp_path)).leader_epoch == 3


def test_a_topic_id_that_a_power_loss_spoiled_is_as_good_as_none(tmp_path: Path) -> None:
    (partition(tmp_path) / "partition.metadata").touch()

    found = only(look(tmp_path))

    assert (found.topic_id, found.problem) == (None, None)


def test_a_topic_id_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").touch()
    directory = partition(tmp_path)
    (directory / "partition.metadata").write_text("version: 7\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")

    problem = only(look(tmp_path)).problem

    assert problem is not None
    assert "Unknown version 7" in problem


def test_directories_that_are_no_partitions_are_foreign(tmp_path: Path) -> None:
    for name in ("backup-2024", "photos", "lost+found"):
        (tmp_path / name).mkdir()
    (tmp_path / "backup-2024" / "notes.txt").touch()
    partition(tmp_path, "no topic!-0")
    (tmp_path / "notes.txt").touch()

    found = look(tmp_path)

    assert found.partitions == ()
    assert found.foreign == ("backup-2024", "lost+found", "no topic!-0", "notes.txt", "photos")


def test_what_belongs_to_a_data_directory_is_not_foreign(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=c\n")
    for name in ("recovery-point-offset-checkpoint", ".lock", "kbroker-tree.journal"):
        (tmp_path / name).touch()
    moved = [f"t-0.{'a' * 32}{suffix}" for suffix in ("-delete", "-future", "-stray")]
    for name in moved:
        partition(tmp_path, name)
    partition(tmp_path, "__cluster_metadata-0")

    found = look(tmp_path)

    assert (found.partitions, found.foreign) == ((), ())
    assert found.moved == tuple(moved)
    assert found.has_kraft_metadata
    assert found.meta is not None
    assert found.meta.broker_id == 3


def test_a_meta_properties_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=2\nnode.id=3\n")

    with pytest.raises(CheckpointError, match="Unknown version 2"):
        look(tmp_path)
