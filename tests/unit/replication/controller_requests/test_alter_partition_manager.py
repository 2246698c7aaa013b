"""Proposals of ISRs on their way to the controller, and what its answers do to the partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.events.event import Event
from kbroker.model import LeaderAndIsr, TopicPartition
from kbroker.replication.controller_requests.alter_partition_manager import (
    RETRY_BACKOFF_S,
    AlterPartitionManager,
    IsrAnswer,
    Proposal,
)
from kbroker.replication.partitions.partition import Partition
from tests.fakes.clusters.replication_cluster import ReplicationCluster

pytestmark = pytest.mark.virtual_time
T, U = TopicPartition("t", 0), TopicPartition("u", 0)
Asked = Mapping[TopicPartition, Proposal]
Answer = Callable[[Asked], IsrAnswer]


def written(asked: Asked) -> IsrAnswer:
    """The controller writes all."""
    return IsrAnswer(ErrorCode.NONE, {tp: in_tree(p.wanted) for tp, p in asked.items()})


def in_tree(wanted: LeaderAndIsr, **fields: int) -> LeaderAndIsr:
    return LeaderAndIsr(
        leader=wanted.leader,
        leader_epoch=fields.get("leader_epoch", wanted.leader_epoch),
        isr=wanted.isr,
        partition_epoch=fields.get("partition_epoch", wanted.partition_epoch + 1),
    )


def each(code: ErrorCode) -> Answer:
    return lambda asked: IsrAnswer(ErrorCode.NONE, dict.fromkeys(asked, code))


def whole(code: ErrorCode) -> Answer:
    return lambda asked: IsrAnswer(code, {})


class Controller:
    """Answers in turn with `answers`, then writes all; waits while it `is_held`."""

    def __init__(self) -> None:
        self.answers: list[Answer | Exception] = []
        self.asked: list[dict[TopicPartition, tuple[int, ...]]] = []
        self.epochs: list[dict[int, int]] = []
        self.times: list[float] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def ask(self, asked: Asked) -> IsrAnswer:
        self.asked.append({tp: p.wanted.isr for tp, p in asked.items()})
        self.epochs.extend(dict(p.epochs) for p in asked.values())
        self.times.append(asyncio.get_running_loop().time())
        await self.may_answer.wait()
        answer = self.answers.pop(0) if self.answers else written
        if isinstance(answer, Exception):
            raise answer
        return answer(asked)


class Leader:
    """A broker that leads t-0 and u-0 with brokers 1 and 2 as replicas, and their manager."""

    def __init__(self, before_shrink: Callable[[Partition], Awaitable[bool]] | None = None) -> None:
        self.cluster = ReplicationCluster()
        self.controller = Controller()
        self.alive = {0, 1, 2}
        self.noted: list[Event] = []
        self.manager = AlterPartitionManager(
            self.controller.ask,
            self.cluster.replicas.isr_settled,
            self.alive.__contains__,
            before_shrink,
            self.noted.append,
        )
        self.cluster.replicas.leadership.isr_changes = self.manager
        self.manager.start()

    def lead(self, where: TopicPartition = T, isr=(0,), leader_epoch=0) -> Partition:
        return self.cluster.lead(
            where.topic, isr=isr, replicas=(0, 1, 2), leader_epoch=leader_epoch
        )

    def fetch(self, partition: Partition, broker_id: int, epoch: int = -1) -> None:
        partition.follower_fetched(
            broker_id, partition.log_end_offset, 0, self.cluster.time.now_ms(), replica_epoch=epoch
        )


async def settle(turns: int = 20) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


@pytest.fixture
async def leader() -> AsyncIterator[Leader]:
    leader = Leader()
    yield leader
    await leader.manager.stop()
    leader.cluster.close()


async def test_a_follower_that_has_caught_up_joins(leader: Leader) -> None:
    partition = leader.lead()

    leader.fetch(partition, 1, epoch=41)
    await settle()

    assert leader.controller.asked == [{T: (0, 1)}]
    assert leader.controller.epochs == [{0: -1, 1: 41}]
    assert (partition.state.isr, partition.state.pending_isr) == ((0, 1), None)


async def test_an_isr_that_is_written_is_noted_with_its_reason(leader: Leader) -> None:
    partition = leader.lead(isr=(0, 1))
    leader.fetch(partition, 2)
    await settle()
    leader.cluster.append(partition, b"v", acks=1)
    leader.fetch(partition, 1)
    leader.cluster.time.advance(30_001)
    leader.cluster.replicas.maybe_shrink_isr()
    await settle()

    assert [(event.name, event.cause) for event in leader.noted] == [
        ("isr_expanded", "caught_up"),
        ("isr_shrunk", "lagging"),
    ]
    assert leader.noted[1].sentence() == (
        "The ISR of t-0 shrank from [0, 1, 2] to [0, 1]: broker 2 lags, its log ends at 0 and the "
        "leader's at 1, and may lag for 30,000 ms (replica.lag.time.max.ms)"
    )


async def test_an_isr_that_is_refused_is_not_noted(leader: Leader) -> None:
    partition = leader.lead()
    leader.controller.answers = [each(ErrorCode.INELIGIBLE_REPLICA)]

    leader.fetch(partition, 1)
    await settle()

    assert leader.noted == []


async def test_a_follower_that_is_not_alive_is_not_proposed(leader: Leader) -> None:
    partition = leader.lead()
    leader.alive.remove(1)

    leader.fetch(partition, 1)
    await settle()

    assert leader.controller.asked == []


async def test_while_one_question_is_under_way_others_gather(leader: Leader) -> None:
    t, u = leader.lead(T), leader.lead(U)
    leader.controller.may_answer.clear()
    leader.fetch(t, 1)
    await settle()
    leader.fetch(t, 2)  # of a partition one proposal at a time
    leader.fetch(u, 1)
    await settle()
    leader.controller.may_answer.set()
    await settle()
    leader.fetch(t, 2)
    await settle()

    assert leader.controller.asked == [{T: (0, 1)}, {U: (0, 1)}, {T: (0, 1, 2)}]


async def test_a_refused_proposal_leaves_the_isr_that_was(leader: Leader) -> None:
    partition = leader.lead()
    leader.controller.answers = [each(ErrorCode.INELIGIBLE_REPLICA)]

    leader.fetch(partition, 1)
    await settle()
    assert (partition.state.isr, partition.state.pending_isr) == ((0,), None)
    leader.fetch(partition, 1)
    await settle()

    assert leader.controller.asked == [{T: (0, 1)}, {T: (0, 1)}]
    assert partition.state.isr == (0, 1)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
async def test_a_superseded_proposal_waits_for_the_order_that_is_to_come(
    leader: Leader, code: ErrorCode
) -> None:
    partition = leader.lead()
    leader.controller.answers = [each(code)]

    leader.fetch(partition, 1)
    await asyncio.sleep(10)

    assert leader.controller.asked == [{T: (0, 1)}]
    assert partition.state.pending_isr == (0, 1)  # it may be in the tree: both ISRs count

    leader.lead(T, isr=(0, 2), leader_epoch=1)

    assert (partition.state.isr, partition.state.pending_isr) == ((0, 2), None)


@pytest.mark.parametrize(
    "answer",
    [
        whole(ErrorCode.NOT_CONTROLLER),
        whole(ErrorCode.STALE_BROKER_EPOCH),
        each(ErrorCode.NOT_CONTROLLER),
        each(ErrorCode.UNKNOWN_SERVER_ERROR),
        each(ErrorCode.OPERATION_NOT_ATTEMPTED),  # an earlier question may be written after it
        KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        ConnectionResetError("gone"),
        lambda asked: IsrAnswer(ErrorCode.NONE, {}),  # it does not name the partition
    ],
)
async def test_without_a_decision_it_is_asked_again_after_a_pause(
    leader: Leader, answer: Answer | Exception
) -> None:
    partition = leader.lead()
    leader.controller.answers = [answer, answer]

    leader.fetch(partition, 1)
    await asyncio.sleep(1)

    assert leader.controller.asked == [{T: (0, 1)}] * 3
    first, second, _ = leader.controller.times
    assert second - first == pytest.approx(RETRY_BACKOFF_S)
    assert partition.state.isr == (0, 1)


async def test_an_answer_to_a_replaced_proposal_changes_nothing(leader: Leader) -> None:
    partition = leader.lead()
    leader.controller.may_answer.clear()
    leader.fetch(partition, 1)
    await settle()
    leader.lead(T, isr=(0, 2), leader_epoch=1)
    leader.controller.may_answer.set()
    await settle()

    assert (partition.state.isr, partition.state.pending_isr) == ((0, 2), None)
    assert leader.controller.asked == [{T: (0, 1)}]


async def test_a_proposal_that_was_replaced_is_not_asked_for_again(leader: Leader) -> None:
    partition = leader.lead()
    leader.controller.answers = [whole(ErrorCode.NOT_CONTROLLER)]
    leader.fetch(partition, 1)
    await settle()
    leader.lead(T, isr=(0, 2), leader_epoch=1)
    await asyncio.sleep(1)

    assert leader.controller.asked == [{T: (0, 1)}]


async def test_the_state_of_a_later_leader_is_not_taken_over_from_an_answer(
    leader: Leader,
) -> None:
    partition = leader.lead()
    leader.controller.answers = [
        lambda asked: IsrAnswer(ErrorCode.NONE, {T: in_tree(asked[T].wanted, leader_epoch=1)})
    ]

    leader.fetch(partition, 1)
    await asyncio.sleep(1)

    assert leader.controller.asked == [{T: (0, 1)}]
    assert (partition.state.isr, partition.state.pending_isr) == ((0,), (0, 1))


async def test_an_answer_older_than_the_proposal_is_asked_for_again(leader: Leader) -> None:
    partition = leader.lead()
    leader.controller.answers = [
        lambda asked: IsrAnswer(ErrorCode.NONE, {T: in_tree(asked[T].wanted, partition_epoch=-1)})
    ]

    leader.fetch(partition, 1)
    await asyncio.sleep(1)

    assert leader.controller.asked == [{T: (0, 1)}] * 2
    assert partition.state.isr == (0, 1)


async def test_a_leader_that_would_be_alone_prepares_for_it_before_it_asks() -> None:
    may_go_on: asyncio.Event = asyncio.Event()
    prepared: list[Partition] = []

    async def prepare(partition: Partition) -> bool:
        prepared.append(partition)
        await may_go_on.wait()
        return True

    leader = Leader(prepare)
    partition = leader.lead(isr=(0, 1))
    leader.cluster.append(partition, b"v")
    leader.cluster.time.advance(30_001)
    leader.cluster.replicas.maybe_shrink_isr()
    await settle()
    assert (prepared, leader.controller.asked) == ([partition], [])

    may_go_on.set()
    await settle()
    await leader.manager.stop()

    assert leader.controller.asked == [{T: (0,)}]
    assert partition.state.isr == (0,)


async def test_a_leader_that_cannot_prepare_does_not_ask() -> None:
    async def fail(_partition: Partition) -> bool:
        return False

    leader = Leader(fail)
    partition = leader.lead(isr=(0, 1))
    leader.cluster.append(partition, b"v")
    leader.cluster.time.advance(30_001)
    leader.cluster.replicas.maybe_shrink_isr()
    await settle()
    await leader.manager.stop()

    assert leader.controller.asked == []
    assert (partition.state.isr, partition.state.pending_isr) == ((0, 1), None)


async def test_after_the_stop_nothing_is_asked(leader: Leader) -> None:
    partition = leader.lead()
    leader.controller.answers = [whole(ErrorCode.NOT_CONTROLLER)] * 9
    leader.fetch(partition, 1)
    await settle()

    await leader.manager.stop()
    await asyncio.sleep(10)

    assert len(leader.controller.asked) == 1
