"""GroupCoordinator: consumer groups of the classic protocol and their offsets, for the groups whose
partition this broker leads.

Law: a thin shell, so that the decisions are pure. It checks that this broker answers for the group,
feeds the request to the machines in `group/` and runs the effects they return. Requests that need
not wait are answered with a plain value, without a task. Refusals are those of Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from kbroker.clock import Clock, Timer
from kbroker.config.group_config import GroupConfig
from kbroker.coordinator.group.classic_group import ClassicGroup
from kbroker.coordinator.group.consumer_group_services import ConsumerGroupServices
from kbroker.coordinator.group.coordinated_group import CoordinatedGroup
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.join_sync import JoinAttempt, refused_sync
from kbroker.coordinator.group.rebalance import refused_join
from kbroker.coordinator.group.records import fits_a_record
from kbroker.coordinator.group.sessions import Leaving, heartbeat
from kbroker.coordinator.group.store import GroupMachine, GroupStore
from kbroker.coordinator.offsets.legacy_offsets import LegacyOffsets
from kbroker.coordinator.offsets.offset_commits import OffsetCommits
from kbroker.coordinator.runtime.batch_append import BatchAppend, Replicas
from kbroker.coordinator.runtime.coordinator_finder import (
    CoordinatorFinder,
    CoordinatorType,
    TopicCreator,
)
from kbroker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kbroker.coordinator.runtime.pending_reply import PendingReply
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import NO_ERROR, ErrorCode, KafkaError
from kbroker.events.event import Note, nobody_notes
from kbroker.model import GROUP_METADATA_TOPIC, ZERO_UUID, TopicPartition
from kbroker.protocol.messages.describe_groups import DescribeGroupsResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.list_groups import ListGroupsResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kbroker.record.record_batch import ControlRecord
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partitions.partition import Partition

if TYPE_CHECKING:
    from kbroker.coordinator.consumer_group.subscribed_patterns import Visible
    from kbroker.coordinator.group.consumer_group_requests import ConsumerGroupRequests
    from kbroker.coordinator.group.consumer_groups import ConsumerGroups

_log = logging.getLogger(__name__)

LeaveOutcome = tuple[ErrorCode, list[ErrorCode]]
_EXPIRY_TIMER = "offsets.retention.check"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CoordinatorServices:
    """The services of the broker that the coordinator uses. `offsets_partitions` returns how many
    partitions `__consumer_offsets` has, 0 if it is not there.
    """

    replicas: Replicas
    metadata: MetadataCache
    topics: TopicCreator
    legacy_offsets: LegacyOffsets
    clock: Clock
    timer: Timer
    new_uuid: Callable[[], UUID]
    offsets_partitions: Callable[[], int]
    note: Note = nobody_notes  # what happens to groups, and why
    consumer_groups: ConsumerGroupServices | None = None  # None if none are served


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Caller:
    """The sender of a JoinGroup, as its connection knows it."""

    client_id: str
    client_host: str  # "/" and the address, as Kafka shows it
    api_version: int
    visible: Visible | None = None  # takes out topics that it may not see; None if it may see all


class GroupCoordinator:
    """Owned by the event loop.

    `store` has the groups, `offsets` serves commits and fetches, `legacy_offsets` their version 0.
    """

    def __init__(self, config: GroupConfig, services: CoordinatorServices) -> None:
        metadata = services.metadata
        self._config = config
        self._new_uuid = services.new_uuid
        self._runtime: CoordinatorRuntime[GroupMachine] = CoordinatorRuntime(
            GROUP_METADATA_TOPIC,
            BatchAppend(
                services.replicas,
                services.clock,
                required_acks=config.offsets_commit_required_acks,
                timeout_ms=config.offsets_commit_timeout_ms,
            ),
            services.clock,
            services.timer,
            lambda: services.offsets_partitions() or config.offsets_topic_num_partitions,
        )
        self._services = services
        self._consumer_groups: ConsumerGroupRequests | None = None
        made = None if services.consumer_groups is None else self._made_consumer_groups
        self.store = GroupStore(config, self._runtime, services.note, made)
        self._monotonic_ms = services.clock.monotonic_ms
        self._is_active = True
        self.offsets = OffsetCommits(self.store, metadata)
        self.legacy_offsets = services.legacy_offsets
        self.find_coordinator = CoordinatorFinder(
            {CoordinatorType.GROUP: self._runtime}, metadata, services.topics
        ).find
        self.partition_for = self._runtime.partition_for

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether groups of the consumer protocol can be here."""
        return self.store.consumer_groups is not None

    @property
    def consumer_groups(self) -> ConsumerGroupRequests:
        """Groups of the consumer protocol, imported with the first of them. Raises ConfigError for
        assignors that cannot be had.
        """
        if self._consumer_groups is None:
            self._consumer_groups = self._requests_of_consumer_groups()
        return self._consumer_groups

    def _requests_of_consumer_groups(self) -> ConsumerGroupRequests:
        from kbroker.coordinator.group.consumer_group_requests import ConsumerGroupRequests
        from kbroker.coordinator.group.consumer_groups import ConsumerGroups

        served = self._services.consumer_groups
        assert served is not None
        groups = ConsumerGroups(self.store, self._services.metadata, served)
        return ConsumerGroupRequests(groups, self._status, self._new_uuid)

    def _made_consumer_groups(self) -> ConsumerGroups:
        return self.consumer_groups.groups

    def check_assignors(self) -> None:
        """Have what makes consumer groups before there are any. Raises ConfigError for assignors
        that cannot be had.
        """
        self._made_consumer_groups()

    # ---- life

    def start(self) -> None:
        """Begin to look for expired offsets every `offsets.retention.check.interval.ms`."""
        interval_ms = self._config.offsets_retention_check_interval_ms
        deadline = self._runtime.monotonic_ms() + interval_ms
        self._runtime.set_timer(_EXPIRY_TIMER, deadline, self._expire)

    def _expire(self) -> None:
        self.start()
        self._runtime.run_sliced(self.offsets.expire(), "expiry of offsets")

    def shutdown(self) -> None:
        """Answer whoever waits, stop all timers; every later request is refused."""
        self._is_active = False
        self._runtime.resign_all()
        self._runtime.close()
        if self._consumer_groups is not None:
            self._consumer_groups.groups.own_targets.stop()

    def on_leadership_change(
        self, became_leader: Iterable[Partition], became_follower: Iterable[Partition]
    ) -> None:
        """The replica manager's news: partitions of `__consumer_offsets` are read, or given up."""
        self._runtime.on_leadership_change(became_leader, became_follower, self.store.new_machine)

    def on_partitions_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are gone from the cluster, and so are the offsets committed for them."""
        self.offsets.partitions_deleted(partitions)

    # ---- transactions

    def end_transaction(
        self, partition: int, producer: Producer, control: ControlRecord
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """Write the marker of a transaction that may have offsets in that partition of
        `__consumer_offsets`.

        NONE once it is stored, or why it is not, as an append says it; NOT_LEADER_OR_FOLLOWER also
        while the partition is read.
        """
        shard = self._runtime.shard_of(partition)
        if shard is None or shard.machine is None or not shard.is_loaded:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        reply: PendingReply[ErrorCode] = PendingReply()
        shard.machine.end_transaction(producer, control, reply.answer)
        return reply.outcome()

    # ---- membership

    def join_group(
        self, request: JoinGroupRequest, caller: Caller
    ) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
        """Answer JoinGroup, after the end of the rebalance if one is on."""
        error = self._refusal(request.group_id)
        if error is NO_ERROR and not self._allows_session_timeout(request.session_timeout_ms):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        coordinated = self.store.find(request.group_id)
        if error is NO_ERROR and coordinated is None and request.member_id:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is NO_ERROR and not _can_be_recorded(request, _new_id(request, caller, ZERO_UUID)):
            return refused_join("", ErrorCode.UNKNOWN_SERVER_ERROR)
        if error is not NO_ERROR:
            return refused_join(request.member_id, error)
        if coordinated is None:
            coordinated = self.store.create(request.group_id)
        elif not isinstance(coordinated, ClassicGroup):
            return self._join_other_kind(coordinated, request, caller)
        return self._join(coordinated, request, caller, _new_id(request, caller, self._new_uuid()))

    def _join_other_kind(
        self, coordinated: CoordinatedGroup, request: JoinGroupRequest, caller: Caller
    ) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
        """An empty group becomes a classic one before somebody joins it."""
        if coordinated.member_count:
            return self._join(coordinated, request, caller, str(self._new_uuid()))
        if request.member_id:
            return refused_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self.store.run(coordinated, coordinated.room_for_classic_members(self._runtime.now()))
        emptied = self.store.find(request.group_id)
        if not isinstance(emptied, ClassicGroup):
            return refused_join("", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._join(emptied, request, caller, _new_id(request, caller, self._new_uuid()))

    def _join(
        self,
        coordinated: CoordinatedGroup,
        request: JoinGroupRequest,
        caller: Caller,
        new_member_id: str,
    ) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
        reply = PendingReply(partial(refused_join, ""))
        attempt = JoinAttempt(
            correlation=reply,
            request=request,
            api_version=caller.api_version,
            client_id=caller.client_id,
            client_host=caller.client_host,
            new_member_id=new_member_id,
            visible=caller.visible,
        )
        self.store.run(coordinated, coordinated.join(attempt, self._runtime.now()))
        self.store.drop_if_untouched(request.group_id)
        return reply.outcome()

    def _allows_session_timeout(self, session_timeout_ms: int) -> bool:
        config = self._config
        return (
            config.group_min_session_timeout_ms
            <= session_timeout_ms
            <= config.group_max_session_timeout_ms
        )

    def sync_group(
        self, request: SyncGroupRequest
    ) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
        """SyncGroup; waits for the leader's assignments."""
        coordinated = self.store.find(request.group_id)
        if coordinated is None:
            error = self._refusal(request.group_id)
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # The rebalance this belongs to is lost, and old clients do not expect code 14 here:
                # back to JoinGroup.
                error = ErrorCode.REBALANCE_IN_PROGRESS
            return SyncGroupResponse(error_code=int(error or ErrorCode.UNKNOWN_MEMBER_ID))
        reply = PendingReply(refused_sync)
        self.store.run(coordinated, coordinated.sync(reply, request, self._runtime.now()))
        return reply.outcome()

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode | Awaitable[ErrorCode]:
        """Answer Heartbeat, at once but for what rests on a write that is on its way."""
        coordinated = self.store.find(request.group_id)
        if isinstance(coordinated, ClassicGroup):
            return heartbeat(coordinated.group, request, self._monotonic_ms())
        if coordinated is None:
            error = self._refusal(request.group_id)
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return NO_ERROR  # sessions start when the group is loaded; no reason to rejoin
            return error or ErrorCode.UNKNOWN_MEMBER_ID
        reply = PendingReply(ErrorCode)
        self.store.run(coordinated, coordinated.heartbeat(reply, request, self._runtime.now()))
        return reply.outcome()

    def leave_group(
        self, group_id: str, leaving: Sequence[Leaving]
    ) -> LeaveOutcome | Awaitable[LeaveOutcome]:
        """LeaveGroup: the code for the request, and one for each member unless it is refused."""
        coordinated = self.store.find(group_id)
        if coordinated is None:
            error = self._refusal(group_id)
            if error is not NO_ERROR:
                return error, []
            return NO_ERROR, [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        reply: PendingReply[LeaveOutcome] = PendingReply(lambda code: (code, []))
        self.store.run(coordinated, coordinated.leave(reply, leaving, self._runtime.now()))
        return reply.outcome()

    def _refusal(self, group_id: str) -> ErrorCode:
        """NONE when this broker answers for a group of that name."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        return self._status(group_id)

    def _status(self, group_id: str) -> ErrorCode:
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._runtime.status(group_id)

    # ---- administration

    def describe_group(
        self, group_id: str
    ) -> tuple[ErrorCode, DescribeGroupsResponse.DescribedGroup]:
        """Return a group as DescribeGroups shows it: Dead if there is none.

        GROUP_ID_NOT_FOUND tells that from a group that is dead, with a sentence.
        """
        coordinated = self.store.find(group_id)
        stored = None if coordinated is None else coordinated.as_stored
        found = None if stored is None else stored.described()
        if found is not None:
            return NO_ERROR, found
        error = self._status(group_id)
        described = DescribeGroupsResponse.DescribedGroup(group_id=group_id)
        if error is NO_ERROR:
            described.group_state = GroupState.DEAD.value
            trouble = "not found" if stored is None else "is not a classic group"
            described.error_message = f"Group {group_id} {trouble}."
            error = ErrorCode.GROUP_ID_NOT_FOUND
        return error, described

    def described_bytes(self, group_id: str) -> int:
        """Return about how many bytes `describe_group` returns of the members."""
        coordinated = self.store.find(group_id)
        return 0 if coordinated is None else coordinated.described_bytes()

    def list_groups(
        self,
        states: Collection[str],
        types: Collection[str],
        among: Iterable[CoordinatedGroup] | None = None,
    ) -> tuple[ErrorCode, list[ListGroupsResponse.ListedGroup]]:
        """The groups of this broker, or `among` these, in these states and of these types, in lower
        case; no filter means all.
        """
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._runtime.is_loading() else NO_ERROR
        return error, [
            _listed(stored)
            for each in (self.store if among is None else among)
            if (stored := each.as_stored) is not None
            if not types or stored.kind in types
            if not states or stored.state.lower() in states
        ]

    def delete_group(self, group_id: str) -> ErrorCode | Awaitable[ErrorCode]:
        """Forget an empty group with its offsets; an awaitable while the log takes its time."""
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.offsets.delete_group(group_id)

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode] | Awaitable[dict[TopicPartition, ErrorCode]]:
        """Forget what a group has committed for these partitions; a code for each.

        An awaitable while the log takes its time. Raises KafkaError if all of it is refused.
        """
        error = self._refusal(group_id)
        if error is not NO_ERROR:
            raise KafkaError(error)
        return self.offsets.delete(group_id, partitions)


def _can_be_recorded(request: JoinGroupRequest, new_member_id: str) -> bool:
    """Whether every name fits into a record of the group: a new member id is longer than what it is
    made of, and so is text that was no UTF-8. Kafka answers the same, when the record is written.
    """
    names = (request.group_id, request.member_id or new_member_id, request.protocol_type)
    return all(map(fits_a_record, (*names, *(protocol.name for protocol in request.protocols))))


def _new_id(request: JoinGroupRequest, caller: Caller, new: UUID) -> str:
    """The id of a new member of a classic group."""
    return f"{request.group_instance_id or caller.client_id}-{new}"


def _listed(coordinated: CoordinatedGroup) -> ListGroupsResponse.ListedGroup:
    return ListGroupsResponse.ListedGroup(
        group_id=coordinated.group_id,
        protocol_type=coordinated.protocol_type,
        group_state=coordinated.state,
        group_type=coordinated.kind,
    )
