"""TxnOffsetCommit (28), versions 0 to 5: a producer commits how far a group has read, as a part of
its transaction (KIP-98).

v2: leader epoch. v3: member, generation and instance, which are checked if they are given
(KIP-447). v4: TRANSACTION_ABORTABLE. v5: adds the group's partition to the transaction. A partition
that does not exist is refused by itself; the others are stored in one batch, and count once the
transaction is committed. If a partition is named more than once, its last offset counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import (
    ForEach,
    ForRequest,
    its_group,
    its_transactional_id,
    topic_or_id,
)
from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.apis.transaction_verification import Joining, refused_partitions
from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.runtime.append_errors import append_errors
from kbroker.coordinator.transaction.participation import Codes
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode
from kbroker.log.producers.verification import TransactionalBatch
from kbroker.model import GROUP_METADATA_TOPIC, NO_SEQUENCE, TopicPartition
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

_FIRST_VERSION_WITH_ABORTABLE = 4
_FIRST_VERSION_THAT_ADDS = 5
_VERIFICATION_ERRORS = {
    **append_errors(too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
_FIRST_VERSION_THAT_KNOWS_LOADING = 2  # older producers fail at COORDINATOR_LOAD_IN_PROGRESS

PartitionResponse = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
TopicResponse = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic


@dataclass(slots=True, eq=False, repr=False)
class _Sorted:
    """The commits that may be stored, by partition, and the answer, which lacks their codes."""

    accepted: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    waiting: dict[TopicPartition, PartitionResponse] = field(default_factory=dict)  # as `accepted`
    response: TxnOffsetCommitResponse = field(default_factory=TxnOffsetCommitResponse)


@api(
    TxnOffsetCommitRequest,
    ForRequest(AclOperation.WRITE, its_transactional_id),
    ForRequest(AclOperation.READ, its_group),
    ForEach(
        operation=AclOperation.READ,
        resource=topic_or_id,
        asked="topics",
        answered="topics",
        partitions=("partitions", "partitions"),
    ),
    parts=AS_A_WHOLE,
)
def handle(
    ctx: RequestContext, request: TxnOffsetCommitRequest
) -> NowOrLater[TxnOffsetCommitResponse]:
    """Store the offsets of partitions that exist."""
    found = _Sorted()
    entries = sum(1 + len(topic.partitions) for topic in request.topics)
    return worked(_sort(ctx, request, found), entries, _store, ctx, request, found)


def _sort(ctx: RequestContext, request: TxnOffsetCommitRequest, found: _Sorted) -> Iterator[None]:
    """Look at one partition after the other; yields after each, and after each topic."""
    now_ms = ctx.services.clock.now_ms()
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            name = TopicPartition(topic.name, partition.partition_index)
            answers.append(_answer(ctx, name, found))
            if name in found.waiting:
                found.accepted[name] = CommittedOffset(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                    commit_timestamp_ms=now_ms,
                )
            yield
        if answers:
            found.response.topics.append(TopicResponse(name=topic.name, partitions=answers))
        yield


def _answer(ctx: RequestContext, name: TopicPartition, found: _Sorted) -> PartitionResponse:
    """Return the answer of a partition; it waits for its code if the partition exists."""
    answer = found.waiting.get(name)
    if answer is None:
        answer = PartitionResponse(partition_index=name.partition)
        if ctx.services.metadata.contains(name):
            found.waiting[name] = answer
        else:
            answer.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return answer


def _store(
    ctx: RequestContext, request: TxnOffsetCommitRequest, found: _Sorted
) -> NowOrLater[TxnOffsetCommitResponse]:
    if not found.accepted:
        return found.response
    groups = ctx.services.groups
    error = groups.offsets.transactional_status(request.group_id)
    if error is not ErrorCode.NONE:
        return _finish([error] * len(found.accepted), found, ctx.api_version)
    place = TopicPartition(GROUP_METADATA_TOPIC, groups.partition_for(request.group_id))
    batch = TransactionalBatch(request.producer_id, request.producer_epoch, NO_SEQUENCE)
    how = Joining.of(ctx.api_version, _FIRST_VERSION_WITH_ABORTABLE, _FIRST_VERSION_THAT_ADDS)
    refused = refused_partitions(ctx, request.transactional_id, {place: batch}, how)
    if isinstance(refused, dict):
        return then(_commit(refused, ctx, request, found), _finish, found, ctx.api_version)
    return _store_later(refused, ctx, request, found)


async def _store_later(
    refused: Awaitable[Codes],
    ctx: RequestContext,
    request: TxnOffsetCommitRequest,
    found: _Sorted,
) -> TxnOffsetCommitResponse:
    codes = _commit(await refused, ctx, request, found)
    if not isinstance(codes, list):
        codes = await codes
    return _finish(codes, found, ctx.api_version)


def _commit(
    refused: Codes, ctx: RequestContext, request: TxnOffsetCommitRequest, found: _Sorted
) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
    """Store the offsets if the group's partition takes part in the transaction."""
    for code in refused.values():
        return [_VERIFICATION_ERRORS.get(code, code)] * len(found.accepted)
    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
    )
    producer = Producer(request.producer_id, request.producer_epoch)
    return ctx.services.groups.offsets.commit_in_transaction(
        committer, producer, list(found.accepted.items())
    )


def _finish(codes: list[ErrorCode], found: _Sorted, version: int) -> TxnOffsetCommitResponse:
    knows_loading = version >= _FIRST_VERSION_THAT_KNOWS_LOADING
    for answer, code in zip(found.waiting.values(), codes, strict=True):
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not knows_loading:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answer.error_code = int(code)
    return found.response
