"""Text files of log directories: the bytes Apache Kafka writes, and what any others do."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kbroker.log.disk import checkpoint
from kbroker.log.disk.checkpoint import CheckpointError, EpochEntry, MetaProperties
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition

DISK = RealFileSystem()
TOPIC_ID = UUID("75870f68-ed0f-4a39-b5ec-de8e965b4973")


def test_offset_checkpoint_has_the_bytes_of_kafka(tmp_path: Path) -> None:
    path = f"{tmp_path}/recovery-point-offset-checkpoint"

    checkpoint.write_offset_checkpoint(
        DISK, path, {TopicPartition("records-deleted", 0): 37, TopicPartition("all-deleted", 0): 10}
    )

    assert Path(path).read_bytes() == b"0\n2\nrecords-deleted 0 37\nall-deleted 0 10\n"
    assert list(tmp_path.iterdir()) == [Path(path)]


def test_offset_checkpoint_reads_back_what_was_written(tmp_path: Path) -> None:
    path = f"{tmp_path}/x"
    offsets = {TopicPartition("a.b-c_1", 7): 2**40, TopicPartition("t", 0): 0}
    checkpoint.write_offset_checkpoint(DISK, path, offsets)

    assert checkpoint.read_offset_checkpoint(DISK, path) == offsets


def test_missing_and_empty_checkpoints_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    assert checkpoint.read_offset_checkpoint(DISK, f"{tmp_path}/missing") == {}
    assert checkpoint.read_offset_checkpoint(DISK, f"{tmp_path}/empty") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1\n0\n", "Unrecognized version"),
        ("x\n0\n", "Unrecognized version"),
        ("0\n", "Malformed entry count"),
        ("0\nmany\n", "Malformed entry count"),
        ("0\n2\x1f\nt 0 5\n", "Expected 2 entries"),
        ("0\n\u00b2\n", "Malformed entry count"),
        (f"0\n{'9' * 5_000}\n", "Malformed entry count"),
        ("0\n2\nt 0 5\n", "Expected 2 entries"),
        ("0\n1\nt 0 5\nt 1 5\n", "Expected 1 entries"),
        ("0\n1\nt 0\n", "Malformed line"),
        ("0\n1\nt zero 5\n", "Malformed line"),
    ],
)
def test_malformed_checkpoint_says_what_is_wrong(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(text)

    with pytest.raises(CheckpointError, match=reason) as caught:
        checkpoint.read_offset_checkpoint(DISK, str(path))

    assert str(path) in str(caught.value)


def test_a_checkpoint_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(CheckpointError, match="not text"):
        checkpoint.read_offset_checkpoint(DISK, str(path))


def test_leader_epochs_have_the_bytes_of_kafka(tmp_path: Path) -> None:
    checkpoint.write_leader_epochs(DISK, str(tmp_path), [EpochEntry(0, 0), EpochEntry(8, 102)])

    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n8 102\n"
    assert checkpoint.read_leader_epochs(DISK, str(tmp_path)) == [(0, 0), (8, 102)]


def test_partition_metadata_has_the_bytes_of_kafka(tmp_path: Path) -> None:
    checkpoint.write_partition_metadata(DISK, str(tmp_path), TOPIC_ID)

    written = (tmp_path / "partition.metadata").read_bytes()
    assert written == b"version: 0\ntopic_id: dYcPaO0PSjm17N6OlltJcw"
    assert checkpoint.read_partition_metadata(DISK, str(tmp_path)) == TOPIC_ID


@pytest.mark.parametrize(
    "text",
    ["", "version: 0", "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: 0\ntopic_id: !"],
)
def test_malformed_partition_metadata_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)

    with pytest.raises(CheckpointError):
        checkpoint.read_partition_metadata(DISK, str(tmp_path))


def test_meta_properties_of_zookeeper_mode_round_trip(tmp_path: Path) -> None:
    meta = MetaProperties(0, "WUCWkUMKR8ymRessLF98wQ", 3)
    checkpoint.write_meta_properties(DISK, str(tmp_path), meta, now_ms=1_700_000_000_000)

    assert checkpoint.read_meta_properties(DISK, str(tmp_path)) == meta
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert lines[0] == "#"
    assert lines[2:] == ["broker.id=3", "version=0", "cluster.id=WUCWkUMKR8ymRessLF98wQ"]


def test_meta_properties_of_kraft_mode_are_read(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Sat\nnode.id=1\ndirectory.id=5CR2CqWESAmOI3izxDTEMg\nversion=1\ncluster.id=abc\n"
    )

    assert checkpoint.read_meta_properties(DISK, str(tmp_path)) == MetaProperties(
        1, "abc", 1, "5CR2CqWESAmOI3izxDTEMg"
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("broker.id=1\n", "it has no line 'version=0'"),
        ("no properties", "it has no line 'version=0'"),
        ("version=zero\n", "version is 'zero', not a number"),
        ("version=0\nbroker.id=one\n", "broker.id is 'one', not a number"),
        ("version=1\nnode.id=\n", "node.id is '', not a number"),
        ("version=7\nbroker.id=1\n", "Unknown version 7 in .*: did a newer Kafka write it"),
    ],
)
def test_malformed_meta_properties_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "meta.properties").write_text(text)

    with pytest.raises(CheckpointError, match=fault):
        checkpoint.read_meta_properties(DISK, str(tmp_path))


def test_clean_shutdown_marker_has_the_bytes_of_kafka(tmp_path: Path) -> None:
    checkpoint.write_clean_shutdown(DISK, str(tmp_path))

    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert checkpoint.read_clean_shutdown(DISK, str(tmp_path))


def test_clean_shutdown_marker_is_gone_after_removal(tmp_path: Path) -> None:
    checkpoint.write_clean_shutdown(DISK, str(tmp_path))

    checkpoint.remove_clean_shutdown(DISK, str(tmp_path))

    assert not checkpoint.read_clean_shutdown(DISK, str(tmp_path))
