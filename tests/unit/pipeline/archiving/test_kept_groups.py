"""What an archive keeps of groups, how often it asks, and what it says where nobody answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from kbroker.client.client_error import ClientError
from kbroker.errors import ErrorCode, KafkaError
from kbroker.pipeline.archiving.kept_groups import KeptGroups, ToldGroups
from kbroker.pipeline.archiving.manifests.archive_reading import (
    SNAPSHOT_EVERY,
    read_archive,
    read_manifest,
)
from kbroker.pipeline.archiving.manifests.archive_writer import ArchiveWriter
from kbroker.pipeline.archiving.manifests.manifest import GroupOffsets
from tests.fakes.archives.archive_maker import PATH, two_batches, writer
from tests.fakes.disks.archive_disk import RecordingArchiveDisk


class Cluster:
    """Answers what the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.asked: list[list[str]] = []
        self.answer: ToldGroups | Exception = ToldGroups(offsets={})
        self.groups = KeptGroups(self.ask, lambda: self.now_s)

    def ask(self, topics: Collection[str]) -> ToldGroups:
        self.asked.append(list(topics))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def tell(self, offsets: GroupOffsets) -> None:
        self.answer = ToldGroups(offsets=offsets)


@pytest.fixture
def disk() -> RecordingArchiveDisk:
    made = RecordingArchiveDisk()
    two_batches(made)
    return made


@pytest.fixture
def hand(disk: RecordingArchiveDisk) -> Iterator[ArchiveWriter]:
    with writer(disk) as made:
        yield made


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_only_what_has_changed_is_written(
    cluster: Cluster, hand: ArchiveWriter, disk: RecordingArchiveDisk
) -> None:
    for offsets in (
        {"a": {"t": {0: 5, 1: 7}}, "b": {"t": {0: 1}}, "idle": {}},
        {"a": {"t": {0: 5, 1: 7}}, "b": {"t": {0: 1}}, "idle": {}},
        {"a": {"t": {0: 6, 1: 7}}, "b": {"t": {0: 1}}},
        {"a": {}},  # its offsets are deleted, and the coordinator of b is away
    ):
        cluster.tell(offsets)
        assert cluster.groups.keep(hand) == []

    before = 2
    said = [read_manifest(PATH, number, disk) for number in range(before, hand.state.number + 1)]
    assert [each.group_offsets for each in said] == [
        {"a": {"t": {0: 5, 1: 7}}, "b": {"t": {0: 1}}},
        {"a": {"t": {0: 6, 1: 7}}},
        {"a": {"t": {}}},
    ]
    assert {each.kind for each in said} == {"groups"}
    assert (
        read_archive(PATH, disk).group_offsets == {"b": {"t": {0: 1}}} == hand.state.group_offsets
    )


def test_a_snapshot_keeps_them(
    cluster: Cluster, hand: ArchiveWriter, disk: RecordingArchiveDisk
) -> None:
    for number in range(SNAPSHOT_EVERY + 1):
        cluster.tell({"a": {"t": {0: number}}})
        cluster.groups.keep(hand)
    disk.unlink(f"{PATH}/manifests/{SNAPSHOT_EVERY - 1:020}.json")  # only the snapshot has it

    assert read_archive(PATH, disk).group_offsets == {"a": {"t": {0: SNAPSHOT_EVERY}}}


def test_a_running_job_asks_once_a_minute(cluster: Cluster, hand: ArchiveWriter) -> None:
    for now_s in (0, 30, 59, 60, 100, 130):
        cluster.now_s = now_s
        cluster.groups.keep_if_due(hand)

    assert cluster.asked == [["t"]] * 3


@pytest.mark.parametrize(
    "error", [ClientError("away"), ConnectionRefusedError("away"), KafkaError(ErrorCode.NONE, "x")]
)
def test_a_cluster_that_is_away_is_asked_again_and_said_once(
    cluster: Cluster, hand: ArchiveWriter, error: Exception
) -> None:
    cluster.answer = error

    notes = [*cluster.groups.keep_if_due(hand), *cluster.groups.keep_if_due(hand)]

    assert notes == [f"the archive goes on without the offsets of groups: {error}"]
    assert len(cluster.asked) == 2
    assert hand.state.number == 1


def test_a_group_whose_coordinator_refuses_is_named_once(
    cluster: Cluster, hand: ArchiveWriter
) -> None:
    cluster.answer = ToldGroups(
        offsets={"a": {"t": {0: 5}}}, refused=("b", "c"), refusal="GROUP_AUTHORIZATION_FAILED"
    )

    notes = [cluster.groups.keep(hand), cluster.groups.keep(hand)]

    said = "the archive goes on without the offsets of b, c: GROUP_AUTHORIZATION_FAILED"
    assert notes == [[said], []]
    assert hand.state.group_offsets == {"a": {"t": {0: 5}}}
