"""The parts of an answer to Fetch beside what was read: hidden topics, other leaders, codes that
old clients know. For some of the partitions at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kbroker.acl.acl import AclOperation, AclResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.fetch_quota import pauses
from kbroker.apis.node_address import leader_addresses, leader_hint
from kbroker.apis.refusal_table import LOOKED_AT_MAX, Refused
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.fetch_params import FetchPartition
from kbroker.replication.reads.fetch_reader import refusal_entry
from kbroker.replication.reads.fetch_session import FetchOrigin
from kbroker.wording import unnamed_topic

FIRST_VERSION_WITH_STORAGE_ERROR = 6
FIRST_VERSION_WITH_LEADER_HINTS = 16
PartitionData = FetchResponse.PartitionData
Answers = list[PartitionData]
_LEADS_NOT = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def hidden_topics(ctx: RequestContext, asked_for: Sequence[FetchPartition]) -> frozenset[str]:
    """Return the topics that the client may not read."""
    names = [asked.topic_partition.topic for asked in asked_for]  # "" for an id that is unknown
    return ctx.refused(AclOperation.READ, AclResourceType.TOPIC, names) - {""}


def with_refused(
    answers: Iterable[PartitionData], asked_for: Sequence[FetchPartition], hidden: Collection[str]
) -> Answers:
    """Return the answers to all that is asked for, given those to what is not hidden."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allowed = iter(answers)
    return [
        refusal_entry(asked, code) if asked.topic_partition.topic in hidden else next(allowed)
        for asked in asked_for
    ]


def still_allowed(
    answers: Iterable[PartitionData],
    ctx: RequestContext,
    asked_for: Sequence[FetchPartition],
    hidden: Collection[str],
) -> Answers:
    """Return the answers to all that is asked for; what may not be read any more, once they are
    there, is refused, too.
    """
    return without_revoked(with_refused(answers, asked_for, hidden), ctx, asked_for, hidden)


def without_revoked(
    found: Answers,
    ctx: RequestContext,
    asked_for: Sequence[FetchPartition],
    hidden: Collection[str],
) -> Answers:
    """Return the answers to all that is asked for, of which `hidden` was refused before."""
    revoked = hidden_topics(ctx, asked_for).difference(hidden)
    if not revoked:
        return found
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        refusal_entry(asked, code) if asked.topic_partition.topic in revoked else data
        for asked, data in zip(asked_for, found, strict=True)
    ]


def settle_codes(answers: Answers) -> None:
    """Say nothing that a client of an old version does not know."""
    for data in answers:
        if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            # An unknown code is not tried again; this one makes the client look for the leader.
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


def explain(
    ctx: RequestContext,
    asked_for: Sequence[FetchPartition],
    answers: Answers,
    origin: FetchOrigin,
) -> set[int]:
    """Report refusals, other leaders to the client, the rest to the log; returns those leaders."""
    pairs = zip(asked_for, answers, strict=True)
    failed = [(asked, data) for asked, data in pairs if data.error_code]
    leaders: set[int] = set()
    if ctx.api_version >= FIRST_VERSION_WITH_LEADER_HINTS:
        for asked, data in failed:
            if data.error_code in _LEADS_NOT:
                leader_id, leader_epoch = leader_hint(ctx.services.metadata, asked.topic_partition)
                data.current_leader.leader_id = leader_id
                data.current_leader.leader_epoch = leader_epoch
                leaders.add(leader_id)
    if failed and not origin.is_follower:
        ctx.tell_entries(_refused_entry(asked, data) for asked, data in failed[:LOOKED_AT_MAX])
    return leaders


def _refused_entry(asked: FetchPartition, data: PartitionData) -> Refused:
    topic, index = asked.topic_partition
    name = topic or unnamed_topic(asked.topic_id)
    return Refused(f"{name}-{index}", name, data.error_code)


def add_leader_addresses(ctx: RequestContext, leaders: set[int], response: FetchResponse) -> None:
    """Add the addresses of these leaders to the answer."""
    response.node_endpoints = [
        FetchResponse.NodeEndpoint(node_id=broker.broker_id, host=host, port=port, rack=broker.rack)
        for broker, host, port in leader_addresses(ctx.connection, ctx.services.metadata, leaders)
    ]


def count_sent(asked_for: Iterable[FetchPartition]) -> None:
    """Count the bytes that a consumer is sent, as they were read last."""
    for asked in asked_for:
        asked.counters.bytes_out += asked.found_bytes


def answered(answers: Answers, ctx: RequestContext, context: FetchContext) -> FetchResponse:
    """Return the answer to a request of which this was read."""
    if ctx.api_version < FIRST_VERSION_WITH_STORAGE_ERROR:
        settle_codes(answers)
    if ctx.services.quotas is not None and pauses(ctx, context, answers):
        return context.throttled()
    if context.origin.is_follower:
        ctx.services.replicas.fetches.count_sent(context.asked_for, answers)
    else:
        count_sent(context.asked_for)
    response = context.response(answers)
    for data in answers:  # a generator in `any` takes three times as long
        if data.error_code:
            leaders = explain(ctx, context.asked_for, answers, context.origin)
            if leaders:
                add_leader_addresses(ctx, leaders, response)
            break
    return response
