"""The shortcut of OffsetCommit requests that differ in partitions and offsets only.

Law: it commits as the handler does, and answers only if everything is stored and nothing waits;
what the commit comes to else goes into the answer that the handler would have made of it. A request
that names a partition twice, or one that is not there, is left to the handler.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from kbroker.apis.context import RequestContext, Services
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.offset_commit_answers import (
    DEFAULT_RETENTION,
    FIRST_VERSION_WITH_TOPIC_IDS,
    answered,
    expiry_ms,
)
from kbroker.apis.served_api import Served
from kbroker.apis.shortcut import HandlerToCall
from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import NO_LEADER_EPOCH, CommittedOffset
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.model import TopicPartition, new_tuple
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.template import Form

_VERSION_WITH_TIMES = 1
_FIRST_VERSION_WITH_LEADER_EPOCHS = 6
_NO_TIME = -1


class OffsetCommitShortcut:
    """Answers the requests of one shape."""

    is_for_all: ClassVar[bool] = False

    __slots__ = (
        "_are_named",
        "_commit",
        "_committer",
        "_contains",
        "_entries",
        "_form",
        "_has_epochs",
        "_has_times",
        "_ids",
        "_now_ms",
        "_retention_ms",
    )

    def __init__(
        self,
        services: Services,
        version: int,
        request: OffsetCommitRequest,
        names: dict[UUID, str],
        form: Form,
    ) -> None:
        """`names` are those of topics that are given by their ids."""
        self._now_ms = services.clock.now_ms
        self._contains = services.metadata.contains
        self._are_named = services.metadata.are_named
        self._commit = services.groups.offsets.commit
        self._committer = Committer(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            version,
        )
        wanted_ms = request.retention_time_ms
        self._retention_ms = None if wanted_ms == DEFAULT_RETENTION else wanted_ms
        self._ids = list(names.items())
        self._entries = [  # name of the topic and metadata of each partition
            (names.get(topic.topic_id, topic.name), partition.committed_metadata or "")
            for topic in request.topics
            for partition in topic.partitions
        ]
        self._has_epochs = version >= _FIRST_VERSION_WITH_LEADER_EPOCHS
        self._has_times = version == _VERSION_WITH_TIMES
        self._form = form

    @classmethod
    def of(
        cls,
        services: Services,
        served: Served,
        request: OffsetCommitRequest,
        _connection: ConnectionInfo,
    ) -> OffsetCommitShortcut | None:
        """The shortcut of requests like this one; None for those without partitions, of topics that
        are not known, and of the version that is kept in the tree.
        """
        version = served.version
        names: dict[UUID, str] = {}
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            for topic in request.topics:
                name = services.metadata.topic_name(topic.topic_id)
                if name is None:
                    return None
                names[topic.topic_id] = name
        if not version or not any(topic.partitions for topic in request.topics):
            return None
        form = Form(_without_error(request), version, served.header.pack(0))
        return cls(services, version, request, names, form)

    def answer(self, values: Sequence[Any]) -> bytes | HandlerToCall | None:
        """The answer to a request with these values, as `Shortcut` says."""
        if self._ids and not self._are_named(self._ids):
            return None
        now_ms = self._now_ms()
        retention_ms = self._retention_ms
        expires_ms = None if retention_ms is None else expiry_ms(retention_ms, now_ms)
        offsets: list[tuple[TopicPartition, CommittedOffset]] = []
        filled: list[int] = [values[0]]
        leader_epoch, given_ms = NO_LEADER_EPOCH, _NO_TIME
        at = 1
        for name, metadata in self._entries:
            index, offset = values[at], values[at + 1]
            place: TopicPartition = new_tuple(TopicPartition, (name, index))
            if not self._contains(place):
                return None
            at += 2
            if self._has_epochs:
                leader_epoch = values[at]
                at += 1
            elif self._has_times:
                given_ms = values[at]
                at += 1
            value = CommittedOffset(
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=metadata,
                commit_timestamp_ms=now_ms if given_ms < 0 else given_ms,
                expire_timestamp_ms=expires_ms,
            )
            offsets.append((place, value))
            filled.append(index)
        if len(offsets) > 1 and len({place for place, _ in offsets}) < len(offsets):
            return None
        codes = self._commit(self._committer, offsets)
        if type(codes) is list and codes.count(NO_ERROR) == len(codes):
            return self._form.frame(filled)
        return partial(_conclude, codes)


def _without_error(request: OffsetCommitRequest) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ]
    )


def _conclude(
    codes: NowOrLater[list[ErrorCode]], ctx: RequestContext, request: OffsetCommitRequest
) -> NowOrLater[OffsetCommitResponse]:
    """The handler of a request whose offsets were committed, or refused, already."""
    return then(codes, answered, ctx, request)
