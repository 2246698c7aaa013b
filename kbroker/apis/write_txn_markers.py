"""WriteTxnMarkers (27), versions 0 and 1: the ends of transactions are written to partitions that
this broker leads: for a transaction coordinator (KIP-98), or for an administrator, who aborts a
transaction that no coordinator knows of (KIP-664, KIP-1037).

v1: Same content as v0. Each partition has its own outcome. Where no broker speaks, commits are
refused: only a coordinator knows that all partitions are ready for one, and no tool of Kafka writes
one. Kafka writes whatever who may alter the cluster asks for, under any epoch of a coordinator; one
that is yet to come would have all markers refused until then, so that nobody ends what the producer
has open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import Rest, is_large, written
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.coordinator.transaction.marker_writer import EpochBound
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TRANSACTION_STATE_TOPIC
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kbroker.slices import slices_of_topics
from kbroker.turns import ENTRIES

_CODES, _BYTES_OF_CODE = "markers.topics.partitions", 7
_FIRST_EPOCH = 0  # what an administrator names if the partition has seen none


def _always(_request: Any) -> bool:
    """Quotas do not hold up the end of a transaction, as in Kafka."""
    return True


@api(
    WriteTxnMarkersRequest,
    ForRequest(AclOperation.CLUSTER_ACTION, the_cluster, unless=AclOperation.ALTER),
    parts=Parts("markers", "markers"),
    exempt=_always,
)
async def handle(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write the markers, each under the epoch of its coordinator."""
    heard = ctx.services.peers.are_heard_on(ctx.connection.listener_name)
    from_broker = heard or ctx.may_be_from_broker()
    if not from_broker and any(marker.transaction_result for marker in request.markers):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    response = await ctx.services.markers.write(request, _bound(ctx, from_broker=from_broker))
    topics = (topic for marker in response.markers for topic in marker.topics)
    size_bytes = _BYTES_OF_CODE * sum(len(topic.partitions) for topic in topics)
    if not is_large(size_bytes):
        return response
    ctx.tell_refusals(request, response)
    parts = _in_parts(response)
    return await written(ctx, WriteTxnMarkersResponse(), _CODES, parts, size_bytes)


def _in_parts(response: WriteTxnMarkersResponse) -> Iterator[list[Any]]:
    result = WriteTxnMarkersResponse.WritableTxnMarkerResult
    for marker in response.markers:
        yield [result(producer_id=marker.producer_id)]
        for topics in slices_of_topics(marker.topics, "partitions", ENTRIES):
            yield Rest([result(producer_id=marker.producer_id, topics=topics)])


def _bound(ctx: RequestContext, *, from_broker: bool) -> EpochBound:
    """A coordinator's epoch is that of the leader of its partition. Another broker may know of a
    later leader than this one, and comes again until this one does, too.
    """
    partitions = ctx.services.metadata.partition_states(TRANSACTION_STATE_TOPIC)
    latest = max((state.leader_epoch for state in partitions.values()), default=_FIRST_EPOCH)
    come_again, refused = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_REQUEST
    return EpochBound(max(latest, _FIRST_EPOCH), come_again if from_broker else refused)
