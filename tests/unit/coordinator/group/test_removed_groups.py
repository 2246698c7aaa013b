"""A group that is removed while more of it is on its way to the log: whatever the log takes of that
or refuses, memory is what the next coordinator finds.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.record.record_batch import ControlRecord
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.brokers.long_appends import LongAppends
from tests.fakes.brokers.long_appends_broker import settled
from tests.fakes.clusters.replication import Replication
from tests.fakes.running.loop_turns import until_idle

PRODUCER = Producer(41, 3)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NONE = ErrorCode.NONE
RETENTION_MS = 60_000
# What the log says to one batch after another; it takes all others.
FATES = {"+": NONE, "-": ErrorCode.KAFKA_STORAGE_ERROR, "s": ErrorCode.MESSAGE_TOO_LARGE}


@pytest.fixture(autouse=True)
def replication() -> None:
    """Tests here say themselves when the log and the replicas answer."""


class Case:
    """A broker with group `g`, whose appends are on their way for as long as the case wants."""

    def __init__(self) -> None:
        self.broker = GroupBroker(mode=Replication.IMMEDIATE, offsets_retention_minutes=1)
        self.answers: list[Any] = []
        self.log = LongAppends(self.broker.replicas)
        self.log.is_long = False

    # ---- what there is before

    def offsets_only(self) -> None:
        self.commit(T0, 1)

    def empty_group(self) -> None:
        """Of consumers that have left."""
        self.come_and_go()

    def empty_group_with_offsets(self) -> None:
        self.come_and_go()
        self.commit(T0, 1)

    def pending_offsets(self) -> None:
        self.commit(T0, 1)
        self.commit(T1, 2, PRODUCER)

    # ---- requests

    def keep(self, answer: Any) -> Any:
        if inspect.isawaitable(answer):
            answer = asyncio.ensure_future(answer)
        self.answers.append(answer)
        return answer

    def commit(
        self,
        partition: TopicPartition,
        value: int,
        producer: Producer | None = None,
        group_id: str = "g",
    ) -> None:
        now_ms = self.broker.time.now_ms()
        rows = [(partition, CommittedOffset(offset=value, commit_timestamp_ms=now_ms))]
        offsets, committer = self.broker.groups.offsets, Committer(group_id)
        if producer is None:
            self.keep(offsets.commit(committer, rows))
        else:
            self.keep(offsets.commit_in_transaction(committer, producer, rows))

    def commit_again(self) -> None:
        self.commit(T0, 5)

    def commit_another(self) -> None:
        self.commit(T1, 6)

    def commit_in_transaction(self) -> None:
        self.commit(T0, 7, PRODUCER)

    def end(self, *, is_commit: bool) -> None:
        self.keep(self.broker.groups.end_transaction(0, PRODUCER, ControlRecord(is_commit, 5)))

    def commit_marker(self) -> None:
        self.end(is_commit=True)

    def abort_marker(self) -> None:
        self.end(is_commit=False)

    def aborted_transaction(self) -> None:
        self.commit_in_transaction()
        self.abort_marker()

    def come(self) -> str:
        joined = self.keep(self.broker.join(version=3))
        if isinstance(joined, asyncio.Future):  # others have to come back first
            return ""
        member_id: str = joined.member_id
        assignments = {member_id: b"all"}
        self.keep(self.broker.sync(member_id, joined.generation_id, assignments=assignments))
        return member_id

    def go(self, member_id: str) -> None:
        member = LeaveGroupRequest.MemberIdentity(member_id=member_id)
        self.broker.groups.leave_group("g", [member])

    def come_and_go(self) -> None:
        self.go(self.come())

    def delete_group(self) -> None:
        self.keep(self.broker.groups.delete_group("g"))

    def delete_offsets(self) -> None:
        if self.broker.groups.store.find("g"):
            self.keep(self.broker.groups.delete_offsets("g", [T0, T1]))

    def expire(self) -> None:
        self.broker.time.advance(RETENTION_MS)
        list(self.broker.groups.offsets.expire())

    # ---- the log

    async def play(self, deeds: Iterable[Callable[[Case], object]], fates: str) -> bool:
        """All `deeds` stand in line behind a large batch, and the log answers as `fates` say; false
        where there are fewer batches.
        """
        self.log.is_long = True
        self.commit(T0, 0, group_id="large")
        for deed in deeds:
            deed(self)
        is_asked = True
        for fate in fates:
            is_asked = self.log.waits
            if is_asked:
                await self.log.finish(FATES[fate])
        await self.settle()
        return is_asked

    async def settle(self) -> None:
        while self.log.waits:
            await self.log.finish()
        self.log.is_long = False
        await settled()
        assert all(each.done() for each in self.answers if isinstance(each, asyncio.Future))

    def differences(self, *, is_exact: bool) -> dict[str, tuple[object, object]]:
        """Groups that the next coordinator finds other than this one knows them; by their offsets
        alone unless `is_exact`.
        """
        tell = all_of if is_exact else offsets_of
        here, there = known(self.broker, tell), known(self.broker.restarted(), tell)
        if not is_exact:  # members may be here before they are in the log
            there = dict.fromkeys(here, NO_OFFSETS) | there
        return {
            group_id: (here.get(group_id), there.get(group_id))
            for group_id in here.keys() | there.keys()
            if here.get(group_id) != there.get(group_id)
        }


NO_OFFSETS: object = ({}, {})


def known(broker: GroupBroker, tell: Callable[[Group], object]) -> dict[str, object]:
    return {each.group.group_id: tell(each.group) for each in broker.groups.store}


def all_of(group: Group) -> object:
    members = (group.state, group.protocol_type, group.generation_id, list(group.members))
    return members, offsets_of(group)


def offsets_of(group: Group) -> object:
    return values(group.offsets.committed), values(group.offsets.pending)


def values(offsets: Mapping[Any, CommittedOffset]) -> dict[Any, int]:
    return {key: value.offset for key, value in offsets.items()}


BEFORE = [
    Case.offsets_only,
    Case.empty_group,
    Case.empty_group_with_offsets,
    Case.pending_offsets,
]
REMOVALS = [Case.delete_group, Case.delete_offsets, Case.expire]
OTHERS = [
    Case.commit_again,
    Case.commit_another,
    Case.commit_in_transaction,
    Case.commit_marker,
    Case.abort_marker,
    Case.aborted_transaction,
    Case.come,
    Case.come_and_go,
    *REMOVALS,
]


MEMBERS = {Case.come, Case.come_and_go}


def name(deed: Any) -> str:
    return str(deed.__name__)


async def differences_after(
    before: Callable[[Case], object], deeds: list[Callable[[Case], object]], fates: str
) -> dict[str, object]:
    case, found = Case(), {}
    before(case)
    if not await case.play(deeds, fates):
        return {}  # the log has refused none: as without fates
    # Members go on without a record that the log has refused.
    is_exact = not fates or not MEMBERS.intersection(deeds)
    found["settled"] = case.differences(is_exact=is_exact)
    case.commit_marker()
    found["transaction ended"] = case.differences(is_exact=is_exact)
    case.delete_group()
    found["deleted"] = case.differences(is_exact=is_exact)
    return {when: what for when, what in found.items() if what}


@pytest.mark.parametrize("other", OTHERS, ids=name)
@pytest.mark.parametrize("removal", REMOVALS, ids=name)
@pytest.mark.parametrize("before", BEFORE, ids=name)
async def test_memory_is_what_the_next_coordinator_finds(
    before: Callable[[Case], object],
    removal: Callable[[Case], object],
    other: Callable[[Case], object],
) -> None:
    orders = ([removal, other], [other, removal], [removal, other, removal])
    assert {
        (at, fates): found
        for at, deeds in enumerate(orders)
        for fates in ("", "-", "+-", "+s", "++-", "+++-")
        if (found := await differences_after(before, deeds, fates))
    } == {}


async def test_who_came_is_told_so_when_the_removal_cannot_follow_any_more() -> None:
    """The removal is too large, and comes again in parts: the record of a member who came after it
    must not be in the log before them.
    """
    case = Case()
    case.empty_group_with_offsets()
    case.commit_another()
    case.log.is_long = True
    case.commit(T0, 0, group_id="large")
    case.delete_group()
    member_id = case.come()
    await case.log.finish()
    await case.log.finish(ErrorCode.MESSAGE_TOO_LARGE)
    await case.settle()
    refused = case.answers[-1].result()

    again = case.broker.join(member_id=member_id)
    synced = case.broker.sync(member_id, again.generation_id, assignments={member_id: b"all"})

    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert synced.error_code == NONE
    assert case.differences(is_exact=True) == {}


async def test_a_group_is_gone_once_its_removal_is_in_the_log_whatever_waits_for_replicas() -> None:
    case = Case()
    case.broker.replicas.holds = True
    case.commit_again()

    assert case.broker.groups.delete_group("g") is NONE

    assert known(case.broker, all_of) == {}
    case.broker.replicas.release()
    await case.settle()
    assert case.differences(is_exact=True) == {}


async def test_a_group_that_lost_its_offsets_while_they_waited_for_replicas_is_gone() -> None:
    case = Case()
    case.broker.replicas.holds = True
    case.commit_again()
    case.delete_offsets()
    case.broker.replicas.release()

    await case.settle()

    assert known(case.broker, all_of) == {}
    assert case.differences(is_exact=True) == {}


async def test_what_is_committed_behind_the_end_of_a_group_does_not_expire_with_it() -> None:
    case = Case()
    case.empty_group()
    case.broker.time.advance(RETENTION_MS)
    await case.play([Case.delete_group, Case.commit_again], "")

    list(case.broker.groups.offsets.expire())

    assert known(case.broker, offsets_of)["g"] == ({T0: 5}, {})


async def test_a_member_id_handed_out_is_not_known_to_a_group_that_is_no_more() -> None:
    case = Case()
    case.offsets_only()
    handed_out = case.broker.join(version=4)
    assert handed_out.error_code == ErrorCode.MEMBER_ID_REQUIRED
    await case.play([Case.delete_group, Case.commit_again], "")

    refused = case.broker.join(member_id=handed_out.member_id)

    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert case.broker.time.armed() == 0


async def test_an_abort_that_is_not_confirmed_in_time_removes_the_group_when_it_is() -> None:
    case = Case()
    case.commit_in_transaction()
    case.broker.replicas.holds = True
    case.abort_marker()
    case.broker.replicas.release(ErrorCode.REQUEST_TIMED_OUT)
    await case.settle()
    unstable = case.broker.groups.offsets.fetch("g", [T0], True)
    case.broker.replicas.holds = False

    case.abort_marker()

    assert [value.error for _, value in unstable] == [ErrorCode.UNSTABLE_OFFSET_COMMIT]
    assert known(case.broker, all_of) == {}
    assert case.differences(is_exact=True) == {}


async def test_a_deleted_topic_takes_offsets_of_very_many_groups_while_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    names = [f"g{number}" for number in range(6)]

    def commit(name: str, offset: int) -> None:
        value = CommittedOffset(offset=offset, commit_timestamp_ms=0)
        assert broker.groups.offsets.commit(Committer(name), [(T0, value)]) == [NONE]

    def committed(found: GroupBroker) -> dict[str, list[int]]:
        return {
            name: [value.offset for _, value in found.groups.offsets.fetch(name, None, False)]
            for name in names
        }

    for name in names:
        commit(name, 1)
    written = len(broker.log().batches())
    with monkeypatch.context() as patched:
        patched.setattr("kbroker.coordinator.runtime.sliced_work.SLICE_MS", 0.0)  # a group each
        broker.groups.on_partitions_deleted([T0])
        assert len(broker.log().batches()) == written + 1
        assert broker.groups.offsets.fetch("g5", None, False) == []  # who asks is not told it
        commit("g4", 7)  # in another topic of that name
        await until_idle(100)

    for found in (broker, broker.restarted()):
        assert committed(found) == {name: [7] if name == "g4" else [] for name in names}
