"""Requests of members of consumer groups (KIP-848), with all that serves them.

Law: as GroupCoordinator's, of which this is a part: a thin shell, refusals are those of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import Assignment, AssignorError
from kbroker.coordinator.consumer_group.heartbeat import (
    Heartbeat,
    add_owned,
    answer_at_rest,
    heartbeat,
    told,
)
from kbroker.coordinator.consumer_group.member import JOINING, OwnedPartitions
from kbroker.coordinator.consumer_group.patterns import is_library_loaded, load_library
from kbroker.coordinator.consumer_group.record_values import PartitionEpochs
from kbroker.coordinator.consumer_group.step import (
    ComputedTarget,
    TargetJob,
    TargetNeededError,
)
from kbroker.coordinator.consumer_group.subscribed_patterns import Visible
from kbroker.coordinator.consumer_group.validation import check_request
from kbroker.coordinator.group.classic_group import ClassicGroup
from kbroker.coordinator.group.consumer_group_refusals import refusal_of
from kbroker.coordinator.group.consumer_groups import ConsumerGroups
from kbroker.coordinator.group.coordinated_consumer_group import CoordinatedConsumerGroup
from kbroker.coordinator.group.coordinated_group import CoordinatedGroup
from kbroker.coordinator.group.records import fits_a_record
from kbroker.coordinator.runtime.pending_reply import PendingReply
from kbroker.errors import NO_ERROR, ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kbroker.slices import slices
from kbroker.turns import ENTRIES, turn

if TYPE_CHECKING:
    from kbroker.coordinator.consumer_group.description import Description

Response = ConsumerGroupHeartbeatResponse
_NONE: frozenset[str] = frozenset()
MOST_STRANGE = 10_000  # names of topics that there are not
_TOO_MANY_NAMES = "SubscribedTopicNames has far more names than there are topics."


class ConsumerGroupRequests:
    """Owned by the event loop."""

    def __init__(
        self,
        groups: ConsumerGroups,
        status: Callable[[str], ErrorCode],
        new_uuid: Callable[[], UUID],
    ) -> None:
        """`status` says whether this broker answers for a group."""
        self.groups = groups
        self._store = groups.store
        self._status = status
        self._new_uuid = new_uuid

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        api_version: int,
        client_id: str,
        client_host: str,
        visible: Visible | None = None,
    ) -> Response | Awaitable[Response]:
        """Answer ConsumerGroupHeartbeat, when what it rests on is stored. `visible` takes out the
        topics that the member may not see; None if it may see all.
        """
        answer = partial(self._answer, request, api_version, client_id, client_host, visible)
        if request.subscribed_topic_regex and not is_library_loaded():
            return self._with_library(answer)
        names, given = request.subscribed_topic_names or (), request.topic_partitions or ()
        found, known = self._store.find(request.group_id), _NONE
        if isinstance(found, CoordinatedConsumerGroup) and (
            found.attendance.must_look_at_topics or len(names) > ENTRIES
        ):
            known = found.group.topics()
        if max(len(known), len(names), len(given)) <= ENTRIES:
            return answer()
        if len(names) > MOST_STRANGE + self.groups.topics_known:
            return _refused(KafkaError(ErrorCode.INVALID_REQUEST, _TOO_MANY_NAMES))
        return self._in_turns(request, known, answer)

    async def _in_turns(
        self,
        request: ConsumerGroupHeartbeatRequest,
        known: frozenset[str],
        answer: Callable[[OwnedPartitions | None], Response | Awaitable[Response]],
    ) -> Response:
        """Answer a member of many topics once they are looked up, each for itself and together with
        those of its group.
        """
        names = frozenset(request.subscribed_topic_names or ())
        await self.groups.learn(names)
        if not known <= names:
            await self.groups.learn(names | known)
        owned: dict[UUID, list[int]] = {}
        for some in slices(request.topic_partitions or (), ENTRIES):
            add_owned(owned, some)
            await turn()
        outcome = answer(None if request.topic_partitions is None else owned)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    async def _with_library(self, answer: Callable[[], Response | Awaitable[Response]]) -> Response:
        """Answer the first one with a pattern, once what checks it is imported."""
        with suppress(KafkaError):  # it is refused with that sentence, if nothing else is wrong
            await self._store.beside(load_library)
        outcome = answer()
        return await outcome if isinstance(outcome, Awaitable) else outcome

    def _answer(
        self,
        request: ConsumerGroupHeartbeatRequest,
        api_version: int,
        client_id: str,
        client_host: str,
        visible: Visible | None,
        owned: OwnedPartitions | None = None,
    ) -> Response | Awaitable[Response]:
        """Answer a member; `owned` need not be given of a small request."""
        found = self._store.find(request.group_id)
        if isinstance(found, CoordinatedConsumerGroup):
            step = found.step(self._store.runtime.now())
            at_rest = answer_at_rest(step, request, client_id, client_host)
            if at_rest is not None:  # nearly always
                return at_rest
        try:
            check_request(request, api_version, self.groups.given.assignors)
            error = NO_ERROR if found is not None else self._status(request.group_id)
            if error is NO_ERROR and not _can_be_recorded(request, client_id):
                error = ErrorCode.UNKNOWN_SERVER_ERROR
            if error is not NO_ERROR:
                return Response(error_code=int(error))
            sent = Heartbeat(
                request=request,
                client_id=client_id,
                client_host=client_host,
                new_member_id="" if request.member_id else str(self._new_uuid()),
                visible=visible,
                owned=_owned(request) if owned is None else owned,
            )
            return self._heard(found, sent)
        except KafkaError as refused:
            return _refused(refused)

    def _heard(
        self,
        found: CoordinatedGroup | None,
        sent: Heartbeat,
        computed: ComputedTarget | None = None,
    ) -> Response | Awaitable[Response]:
        """Answer a member of a group, which may not be there yet, or change for it. Raises
        KafkaError.
        """
        if isinstance(found, ClassicGroup) and sent.request.member_epoch == JOINING:
            return self._change_protocol(found, sent)
        return self._decide(self._group(sent.request, found), sent, computed)

    def _change_protocol(
        self, classic: ClassicGroup, sent: Heartbeat
    ) -> Response | Awaitable[Response]:
        """A member of the new protocol joins a classic group, which becomes one of its protocol.
        Raises KafkaError if the group or the member cannot be taken in.
        """
        made = self.groups.successor_of(classic)
        upgrade, step = made.step_as_successor(classic.group, self._store.runtime.now())
        response = heartbeat(step, sent)
        reply = PendingReply(refusal_of)
        self._store.run(classic, made.succeeding(classic, upgrade, step, reply, response))
        return _complete(reply.outcome(), step.told)

    def describe(self, group_id: str) -> Description:
        """Return a group as ConsumerGroupDescribe shows it. Raises KafkaError if it does not."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        found = self._stored(group_id)
        if isinstance(found, CoordinatedConsumerGroup):
            return found.shown()
        error = self._status(group_id)
        if error is not NO_ERROR:
            raise KafkaError(error)
        if found is not None:
            raise _not_found(f"Group {group_id} is not a consumer group.")
        raise _not_found(f"Group {group_id} not found.")

    def described_bytes(self, group_id: str) -> int:
        """Return about how many bytes of members `describe` returns."""
        found = self._stored(group_id)
        return found.shown_bytes() if isinstance(found, CoordinatedConsumerGroup) else 0

    def _stored(self, group_id: str) -> CoordinatedGroup | None:
        found = self._store.find(group_id)
        return None if found is None else found.as_stored

    def _decide(
        self,
        coordinated: CoordinatedConsumerGroup,
        sent: Heartbeat,
        computed: ComputedTarget | None = None,
    ) -> Response | Awaitable[Response]:
        step = coordinated.step(self._store.runtime.now())
        step.can_wait, step.computed = True, computed
        try:
            response = heartbeat(step, sent)
        except (KafkaError, TargetNeededError) as refused:
            coordinated.undone(step)
            self._store.drop_if_untouched(coordinated.group_id)
            if isinstance(refused, TargetNeededError):
                return self._with_target(coordinated, sent, refused.job)
            return _refused(refused)
        reply = PendingReply(refusal_of)
        self._store.run(coordinated, coordinated.concluded(step, reply, response))
        return _complete(reply.outcome(), step.told)

    async def _with_target(
        self, coordinated: CoordinatedConsumerGroup, sent: Heartbeat, job: TargetJob
    ) -> Response:
        """Answer once an assignor of the operator's has answered; others keep to the last target
        meanwhile.
        """
        attendance, group_id = coordinated.attendance, sent.request.group_id
        attendance.job = job
        found: Mapping[str, Assignment] | AssignorError
        try:
            found = await self.groups.own_target(group_id, job)
        except AssignorError as error:
            found = error
        finally:
            if attendance.job is job:
                attendance.job = None
        error_code = self._status(group_id)
        if error_code is not NO_ERROR:
            return Response(error_code=int(error_code))
        try:
            outcome = self._heard(self._store.find(group_id), sent, ComputedTarget(job, found))
        except KafkaError as refused:
            return _refused(refused)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    def _group(
        self, request: ConsumerGroupHeartbeatRequest, found: CoordinatedGroup | None
    ) -> CoordinatedConsumerGroup:
        """The group of a heartbeat, a new one for the first member. Raises KafkaError."""
        group_id = request.group_id
        if isinstance(found, CoordinatedConsumerGroup):
            return found
        if found is None and request.member_epoch != JOINING:
            kind = "Group" if request.member_epoch < JOINING else "Consumer group"
            raise _not_found(f"{kind} {group_id} not found.")
        if found is None:
            return self.groups.create(group_id)
        raise _not_found(f"Group {group_id} is not a consumer group.")


def _owned(request: ConsumerGroupHeartbeatRequest) -> OwnedPartitions | None:
    """The partitions that a member says it has, by topic id; None if it does not say."""
    if request.topic_partitions is None:
        return None
    owned: dict[UUID, list[int]] = {}
    add_owned(owned, request.topic_partitions)
    return owned


def _complete(
    outcome: Response | Awaitable[Response], assigned: PartitionEpochs | None
) -> Response | Awaitable[Response]:
    """The answer with the assignment that the member is told of, if it is not refused."""
    if assigned is None:
        return outcome
    if isinstance(outcome, Awaitable) or len(assigned) > ENTRIES:
        return _completed_later(outcome, assigned)
    if not outcome.error_code:
        outcome.assignment = Response.Assignment(topic_partitions=told(assigned.items()))
    return outcome


async def _completed_later(
    outcome: Response | Awaitable[Response], assigned: PartitionEpochs
) -> Response:
    response = await outcome if isinstance(outcome, Awaitable) else outcome
    if response.error_code:
        return response
    topics: list[Response.TopicPartitions] = []
    for some in slices(assigned.items(), ENTRIES):
        if topics:
            await turn()
        topics += told(some)
    response.assignment = Response.Assignment(topic_partitions=topics)
    return response


def _refused(error: KafkaError) -> Response:
    return Response(error_code=int(error.code), error_message=error.message)


def _not_found(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, sentence)


def _can_be_recorded(request: ConsumerGroupHeartbeatRequest, client_id: str) -> bool:
    """Whether every name fits into a record of the group."""
    names = (
        request.group_id,
        request.member_id,
        request.instance_id,
        request.rack_id,
        request.server_assignor,
        request.subscribed_topic_regex,
        client_id,
        *(request.subscribed_topic_names or ()),
    )
    return all(name is None or fits_a_record(name) for name in names)
