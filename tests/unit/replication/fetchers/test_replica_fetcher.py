"""A fetcher against a leader that answers as the test says; the logs are real."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.checkpoint import EpochEntry
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.replication.fetchers.fetcher_parts import FetcherParts, FollowerThrottle
from kbroker.replication.fetchers.replica_fetcher import ReplicaFetcher
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.replication_quota import ReplicationQuotas
from tests.fakes.logs.log_maker import PARTITION, batch, open_log
from tests.fakes.running.virtual_time import VirtualTime

LEADER, FOLLOWER = 1, 2
OTHER = TopicPartition("other", 0)
TURNS = 30
Answer = FetchResponse | Exception


def data(*, records: bytes = b"", **fields: Any) -> FetchResponse.PartitionData:
    values = {"high_watermark": 0, "log_start_offset": 0, **fields}
    return FetchResponse.PartitionData(
        partition_index=0, records=memoryview(bytearray(records)), **values
    )


def answer(*entries: FetchResponse.PartitionData, topic: str = PARTITION.topic) -> FetchResponse:
    topics = [FetchResponse.FetchableTopicResponse(topic=topic, partitions=list(entries))]
    return FetchResponse(session_id=9, responses=topics if entries else [])


class ScriptedLeader:
    """Answers fetches in the order of `answers`, then no more; notes what it was asked."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.before_answer: Callable[[], None] = lambda: None
        self.asked: list[list[tuple[TopicPartition, int, int]]] = []
        self.forgotten: list[list[TopicPartition]] = []
        self.range = (0, 0)
        self.epoch_ends: deque[EpochEndOffset | ErrorCode] = deque()

    async def fetch(self, _step: Any, asked: Any, forgotten: Any, **_options: Any) -> FetchResponse:
        self.asked.append(
            [(s.topic_partition, s.fetch_offset, s.last_fetched_epoch) for s in asked]
        )
        self.forgotten.append([partition for partition, _ in forgotten])
        if not self.answers:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        self.before_answer()
        found = self.answers.popleft()
        if isinstance(found, Exception):
            raise found
        return found

    async def reports_divergence(self) -> bool:
        return True

    async def end_offset(self, _state: Any) -> int:
        return self.range[1]

    async def start_offset(self, _state: Any) -> int:
        return self.range[0]

    async def epoch_end_offsets(self, states: Any) -> dict[TopicPartition, Any]:
        return {state.topic_partition: self.epoch_ends.popleft() for state in states}

    def close(self) -> None:
        self.answers.append(ConnectionResetError("closed"))


class World:
    """A follower of one partition, or of two."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = VirtualTime()
        self.hosted = HostedPartitions(MetadataCache(FOLLOWER))
        self.leader = ScriptedLeader()
        self.woken: list[TopicPartition] = []
        parts = FetcherParts(
            hosted=self.hosted,
            wake=self.woken.append,
            clock=self.time,
            throttle=FollowerThrottle(
                ReplicationQuotas(FOLLOWER), self.hosted, self.time, lambda: 1000
            ),
            backoff_ms=lambda: 1000,
            sleep=lambda _seconds: asyncio.sleep(0),
        )
        leader: Any = self.leader
        self.fetcher = ReplicaFetcher("fetcher", parts, lambda: leader)

    def follow(
        self, records: int = 0, *, epoch: int = 0, topic_partition: TopicPartition = PARTITION
    ) -> Partition:
        log = open_log(self.directory / topic_partition.topic)
        log.topic_partition = topic_partition
        for _ in range(records):
            log.append_as_leader(batch(b"old"), epoch, 1)
        partition = Partition(topic_partition, log, FOLLOWER)
        self.order(partition, leader_epoch=epoch)
        self.hosted.add(partition)
        self.fetcher.add(partition)
        return partition

    def order(self, partition: Partition, *, leader: int = LEADER, leader_epoch: int = 0) -> None:
        change = LeaderAndIsr(leader=leader, leader_epoch=leader_epoch, isr=(LEADER, FOLLOWER))
        assignment = ReplicaAssignment(replicas=(LEADER, FOLLOWER))
        if leader == FOLLOWER:
            partition.make_leader(change, assignment, 1, 1)
        else:
            partition.make_follower(change, assignment, 1)

    async def run(self, *answers: Answer) -> None:
        """Let it fetch until these answers have been taken."""
        self.leader.answers.extend(answers)
        self.fetcher.start()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        await self.fetcher.stop()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def records(count: int, *, base: int = 0, epoch: int = 0) -> bytes:
    return b"".join(
        bytes(batch(b"new", base_offset=base + n, partition_leader_epoch=epoch))
        for n in range(count)
    )


async def test_what_comes_is_stored_and_then_asked_beyond(world: World) -> None:
    partition = world.follow()

    await world.run(answer(data(records=records(2), high_watermark=1)))

    log = partition.log
    stored = log.read(0, 10_000, FetchIsolation.LOG_END, True).records.read()
    assert (log.log_end_offset, log.high_watermark, stored) == (2, 1, records(2))
    assert world.leader.asked[:2] == [[(PARTITION, 0, -1)], [(PARTITION, 2, 0)]]
    assert world.woken[-1] == PARTITION


async def test_high_watermark_and_log_start_follow_without_records(world: World) -> None:
    partition = world.follow(records=3)

    await world.run(answer(data(high_watermark=3, log_start_offset=2)))

    assert (partition.high_watermark, partition.log_start_offset) == (3, 2)


async def test_an_answer_that_comes_after_a_change_of_leaders_is_dropped(world: World) -> None:
    partition = world.follow()
    world.leader.before_answer = lambda: world.order(partition, leader=FOLLOWER, leader_epoch=1)

    await world.run(answer(data(records=records(2), high_watermark=2)))

    assert partition.log_end_offset == 0


async def test_an_answer_under_an_epoch_that_the_partition_has_no_more_is_dropped(
    world: World,
) -> None:
    partition = world.follow()
    world.leader.before_answer = lambda: world.order(partition, leader_epoch=1)

    await world.run(answer(data(records=records(2), high_watermark=2)))

    assert (partition.log_end_offset, len(world.fetcher.states)) == (0, 0)


async def test_an_answer_to_an_earlier_epoch_is_dropped_and_asked_for_anew(world: World) -> None:
    partition = world.follow()

    def hear_of_an_epoch() -> None:
        world.leader.before_answer = lambda: None
        world.order(partition, leader_epoch=1)
        world.fetcher.add(partition)

    world.leader.before_answer = hear_of_an_epoch
    again = answer(data(records=records(1, epoch=1), high_watermark=1))
    await world.run(answer(data(records=records(2), high_watermark=2)), answer(), again)

    assert (partition.log_end_offset, partition.high_watermark) == (1, 1)
    assert world.leader.forgotten[1] == [PARTITION]


async def test_a_log_that_parted_is_cut_and_goes_on_there(world: World) -> None:
    partition = world.follow(records=4)
    parted = FetchResponse.EpochEndOffset(epoch=0, end_offset=2)

    await world.run(
        answer(data(diverging_epoch=parted)),
        answer(data(records=records(1, base=2, epoch=1), high_watermark=3)),
    )

    assert (partition.log_end_offset, partition.high_watermark) == (3, 3)
    entries = partition.log.leader_epoch_cache.entries
    assert entries == [EpochEntry(0, 0), EpochEntry(1, 2)]


async def test_what_a_full_disk_did_not_cut_is_not_taken_for_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = world.follow(records=4)

    def refuse(*_arguments: object) -> None:
        raise StorageError("00000000000000000000.index", "write", ENOSPC)

    monkeypatch.setattr(type(partition.log.files), "truncate_to", refuse)
    parted = FetchResponse.EpochEndOffset(epoch=0, end_offset=2)
    await world.run(answer(data(diverging_epoch=parted)))

    state = world.fetcher.states.find(PARTITION)
    assert state is not None
    assert (state.fetch_offset, partition.log_end_offset) == (2, 2)


async def test_an_epoch_without_records_is_forgotten_where_it_parts_from_the_leader(
    world: World,
) -> None:
    partition = world.follow(records=2)
    partition.log.begin_leader_epoch(3)
    world.fetcher.add(partition)
    parted = FetchResponse.EpochEndOffset(epoch=0, end_offset=2)

    await world.run(answer(data(diverging_epoch=parted)))

    assert partition.log_end_offset == 2
    assert world.leader.asked[:2] == [[(PARTITION, 2, 3)], [(PARTITION, 2, 0)]]


async def test_a_log_longer_than_its_leaders_is_cut_at_that_end(world: World) -> None:
    partition = world.follow(records=4)
    world.leader.range = (0, 1)

    await world.run(answer(data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)))

    assert partition.log_end_offset == 1


async def test_a_log_that_ends_before_its_leaders_begins_starts_over_there(world: World) -> None:
    partition = world.follow(records=2)
    world.leader.range = (7, 9)

    await world.run(answer(data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)))

    assert (partition.log_start_offset, partition.log_end_offset) == (7, 7)


async def test_a_log_whose_leader_has_deleted_all_of_it_begins_with_the_batch_around_its_end(
    world: World,
) -> None:
    """Its last records came under an epoch that the leader knows no more: it cannot be told that
    they part.
    """
    partition = world.follow(records=4)
    around = bytes(batch(b"3", b"4", base_offset=3, partition_leader_epoch=1))

    await world.run(answer(data(records=around, high_watermark=5, log_start_offset=4)))

    assert (partition.log_start_offset, partition.log_end_offset) == (4, 5)
    assert partition.log.segments.base_offsets == [3]


async def test_a_log_whose_leader_has_deleted_all_of_it_keeps_what_it_has_where_a_batch_follows(
    world: World,
) -> None:
    """A cut without need could lose where the log ends: a full disk takes no new segment."""
    partition = world.follow(records=4)

    await world.run(answer(data(records=records(1, base=4), high_watermark=5, log_start_offset=4)))

    assert (partition.log_start_offset, partition.log_end_offset) == (4, 5)
    assert partition.log.segments.base_offsets == [0]


async def test_a_log_without_epochs_is_cut_at_its_high_watermark_at_first(world: World) -> None:
    partition = world.follow()
    partition.log.append_as_follower(batch(b"old"))
    partition.log.leader_epoch_cache.clear()
    world.fetcher.add(partition)

    await world.run(answer(data(records=records(1), high_watermark=1)))

    assert (partition.log_end_offset, partition.high_watermark) == (1, 1)


async def test_a_fenced_partition_waits_for_the_controller(world: World) -> None:
    world.follow()

    await world.run(answer(data(error_code=ErrorCode.FENCED_LEADER_EPOCH)))

    assert len(world.fetcher.states) == 0


@pytest.mark.parametrize(
    "trouble",
    [
        {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"error_code": ErrorCode.UNKNOWN_SERVER_ERROR},
        {"records": records(1)[:-1] + b"\xff"},
        {"records": records(1, base=5) + records(1, base=5)},
    ],
    ids=["error", "unknown error", "damaged", "offsets that do not rise"],
)
async def test_trouble_with_one_partition_leaves_it_out_and_not_the_others(
    world: World, trouble: dict[str, Any]
) -> None:
    partition = world.follow()
    other = world.follow(topic_partition=OTHER)

    await world.run(
        answer(data(**trouble)),
        answer(data(records=records(1), high_watermark=1), topic=OTHER.topic),
    )

    assert (partition.log_end_offset, other.log_end_offset) == (0, 1)
    assert world.fetcher.states.next_delay_ms(world.time.monotonic_ms()) == 1000
    assert world.leader.forgotten[1] == [PARTITION]


async def test_a_lost_connection_is_opened_again_and_everything_is_named(world: World) -> None:
    partition = world.follow(records=1)

    await world.run(answer(), ConnectionResetError("cut"), answer(data(records=records(1, base=1))))

    assert partition.log_end_offset == 2
    assert world.leader.asked[:3] == [[(PARTITION, 1, 0)], [], [(PARTITION, 1, 0)]]


async def test_a_log_that_refuses_is_left_out_and_keeps_what_it_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = world.follow()

    def refuse(*_arguments: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space")

    monkeypatch.setattr(Partition, "append_as_follower", refuse)
    await world.run(answer(data(records=records(1))))

    assert partition.log_end_offset == 0
    assert world.fetcher.states.next_delay_ms(world.time.monotonic_ms()) == 1000
