"""Groups and committed offsets in the data directories that Apache Kafka wrote, after a clean stop,
after a kill and after damage: read through the log layer as a coordinator reads them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.offsets import NO_LEADER_EPOCH
from kbroker.coordinator.group.replay import GroupReplay
from kbroker.coordinator.runtime.partition_replay import PartitionReplay
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.manager.log_manager import LogManager
from tests.golden import golden_logs
from tests.integration.directory_writer import WallClock

IMAGES = (*golden_logs.CLEAN, *golden_logs.UNCLEAN, *golden_logs.DAMAGED)
OFFSETS = TopicConfig(cleanup_policy=("compact",))

Row = dict[str, Any]


def groups_in(root: Path) -> dict[str, Group]:
    """The classic groups of a data directory; KIP-848's are of another kind."""
    directories = LogDirectories.lock(RealFileSystem(), [str(root)])
    logs = LogManager(
        directories,
        LogConfig,
        lambda _: OFFSETS,
        RealFileSystem(),
        WallClock(),
    )
    meta = directories.meta
    assert meta is not None
    assert meta.cluster_id is not None
    assert meta.broker_id is not None
    logs.load(meta.cluster_id, meta.broker_id)
    replay = GroupReplay()
    for log in logs.all_logs():
        if log.topic_partition.topic == "__consumer_offsets":
            for _ in PartitionReplay(log.topic_partition, log, replay).steps():
                pass
    groups = {group.group_id: group for group in replay.groups()}
    logs.shutdown()
    return groups


def is_classic(group_id: str) -> bool:
    return "848" not in group_id


@pytest.mark.parametrize("image", IMAGES)
def test_the_groups_are_those_that_the_running_broker_listed(image: str, tmp_path: Path) -> None:
    rows = golden_logs.lines(image, "expected")

    groups = groups_in(golden_logs.unpack(image, tmp_path))

    assert {
        (group_id, group.state.value, group.is_simple)
        for group_id, group in groups.items()
        if is_classic(group_id)
    } == {
        (row["group"], row["state"], row["simple"])
        for row in rows
        if row["kind"] == "group" and is_classic(row["group"])
    }


@pytest.mark.parametrize("image", IMAGES)
def test_committed_offsets_are_those_that_the_running_broker_answered(
    image: str, tmp_path: Path
) -> None:
    rows = [row for row in golden_logs.lines(image, "expected") if row["kind"] == "committed"]

    groups = groups_in(golden_logs.unpack(image, tmp_path))

    assert len(rows) >= 12
    assert {
        (group_id, *partition, value.offset, value.leader_epoch, value.metadata)
        for group_id, group in groups.items()
        for partition, value in group.offsets.committed.items()
    } == {(*_key(row), row["offset"], _epoch(row), row["metadata"]) for row in rows}


def _key(row: Row) -> tuple[str, str, int]:
    return row["group"], row["topic"], row["partition"]


def _epoch(row: Row) -> int:
    epoch = row["leader_epoch"]
    return NO_LEADER_EPOCH if epoch is None else epoch
