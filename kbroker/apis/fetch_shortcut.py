"""The shortcuts of consumers' Fetch requests; here those without a session, that differ in
partitions and offsets only.

Law: it reads, and waits, as the handler does. Whatever is refused goes into the answer that the
handler would have made of it. Under an authorizer nothing is read unless the client may read all
that is asked for; if it waits, it is asked again when the answer is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from kbroker.apis.authorizer import ALLOW_ALL
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.fetch_answers import Answers, answered, count_sent, without_revoked
from kbroker.apis.fetch_versions import (
    FIRST_VERSION_WITH_FORMAT_2,
    ISOLATION,
    chooses_replica,
    params_of,
)
from kbroker.apis.permitted_shortcut import TopicReader
from kbroker.apis.served_api import Served
from kbroker.apis.session_fetch_shortcut import SessionFetchShortcut
from kbroker.apis.shortcut import Answered
from kbroker.model import CONSUMER_REPLICA_ID, ZERO_UUID, TopicPartition, new_tuple
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.request import Coming, ConnectionInfo, Piece, Response
from kbroker.protocol.template import Form
from kbroker.replication.reads.fetch_context import NO_SESSION, FetchContext
from kbroker.replication.reads.fetch_params import NO_EPOCH, FetchParams, FetchPartition
from kbroker.replication.reads.fetch_session import FINAL_EPOCH

_UNCOMMITTED = 0  # isolation level
_FIRST_VERSION_WITH_SESSIONS = 7
_FIRST_VERSION_WITH_START_OFFSETS = 5
_FIRST_VERSION_WITH_EPOCHS = 9
_FIRST_VERSION_WITH_FETCHED_EPOCHS = 12


def shortcut_of(
    services: Services, served: Served, request: FetchRequest, connection: ConnectionInfo
) -> FetchShortcut | SessionFetchShortcut | None:
    """The shortcut of requests like this one; None for followers, for consumers of old formats, or
    that forget partitions, and for those it does not serve.
    """
    if (
        served.version < FIRST_VERSION_WITH_FORMAT_2
        or max(request.replica_id, request.replica_state.replica_id) >= 0
        or request.forgotten_topics_data
        or request.isolation_level not in ISOLATION
        or chooses_replica(services, request)
    ):
        return None
    if request.session_id != NO_SESSION:
        return SessionFetchShortcut(services, served, request, connection)
    return FetchShortcut.of(services, served, request, TopicReader.of(services, connection))


class FetchShortcut:
    """Answers the requests of one shape."""

    is_for_all: ClassVar[bool] = False

    __slots__ = (
        "_are_named",
        "_asked_for",
        "_fetch",
        "_form",
        "_has_epochs",
        "_has_fetched_epochs",
        "_has_sessions",
        "_has_start_offsets",
        "_ids",
        "_params",
        "_reader",
        "_topics",
        "_wanted",
    )

    def __init__(
        self,
        services: Services,
        version: int,
        params: FetchParams,
        asked_for: list[FetchPartition],
        form: Form,
        reader: TopicReader | None,
    ) -> None:
        """`reader` is the client, None if everybody may read everything."""
        self._reader = reader
        self._fetch = services.replicas.fetches.fetch
        self._are_named = services.metadata.are_named
        self._params = params
        self._asked_for = asked_for
        self._topics = [asked.topic_partition.topic for asked in asked_for]
        self._wanted = frozenset(self._topics)
        self._ids = list(
            {
                asked.topic_id: asked.topic_partition.topic
                for asked in asked_for
                if asked.topic_id is not ZERO_UUID
            }.items()
        )
        self._form = form
        self._has_sessions = version >= _FIRST_VERSION_WITH_SESSIONS
        self._has_start_offsets = version >= _FIRST_VERSION_WITH_START_OFFSETS
        self._has_epochs = version >= _FIRST_VERSION_WITH_EPOCHS
        self._has_fetched_epochs = version >= _FIRST_VERSION_WITH_FETCHED_EPOCHS

    @classmethod
    def of(
        cls, services: Services, served: Served, request: FetchRequest, reader: TopicReader | None
    ) -> FetchShortcut | None:
        """The shortcut of requests like this one of a consumer; None for those that begin or end a
        session, for committed data and unknown topics, and for those that name a topic again.
        """
        version = served.version
        if request.session_epoch != FINAL_EPOCH or request.isolation_level != _UNCOMMITTED:
            return None
        params = params_of(services, version, request, CONSUMER_REPLICA_ID)
        context = FetchContext.of(
            services.replicas.fetch_sessions,
            request,
            version,
            services.metadata.topic_name,
            is_follower=False,
        )
        asked_for = context.asked_for
        entries = sum(len(topic.partitions) for topic in request.topics)
        if not asked_for or len(asked_for) != entries:
            return None
        if not all(asked.topic_partition.topic for asked in asked_for):
            return None
        for asked in asked_for:
            asked.last_fetched_epoch = NO_EPOCH  # who names one is left to the handler
        answers = [
            FetchResponse.PartitionData(aborted_transactions=None, records=b"") for _ in asked_for
        ]
        response = context.response(answers)
        if len(response.responses) != sum(bool(topic.partitions) for topic in request.topics):
            return None  # a topic that is named again is answered once, in another order
        form = Form(response, version, served.header.pack(0))
        return cls(services, version, params, asked_for, form, reader)

    def answer(self, values: list[Any]) -> Answered | Coming[Answered] | None:
        """The answer to a request with these values, as `Shortcut` says."""
        if self._ids and not self._are_named(self._ids):
            return None
        if not self._ask(values):
            return None
        if self._reader is not None and not self._reader.may_read(self._wanted):
            return None
        answers = self._fetch(self._params, self._asked_for)
        if isinstance(answers, list):
            return self._answered(values[0], answers)
        assert isinstance(answers, asyncio.Future), "they are few"
        coming = answers
        return Coming(coming, lambda: self._ended(values[0], coming.result()))

    def _ended(self, correlation_id: int, answers: Answers) -> Answered:
        """The answer to a request that has waited: rules may have changed meanwhile."""
        if self._reader is not None and not self._reader.may_read(self._wanted):
            return partial(_conclude, self._asked_for, answers)
        return self._answered(correlation_id, answers)

    def _answered(self, correlation_id: int, answers: Answers) -> Answered:
        filled: list[int] = [correlation_id]
        records: list[Piece] = []
        for data in answers:
            if data.error_code:
                return partial(_conclude, self._asked_for, answers)
            filled += (data.partition_index, data.high_watermark, data.last_stable_offset)
            if self._has_start_offsets:
                filled.append(data.log_start_offset)
            records.append(data.records)  # type: ignore[arg-type]
        for asked in self._asked_for:
            asked.counters.bytes_out += asked.found_bytes
        response: Response = new_tuple(Response, (self._form.pieces(filled, records), 0, None))
        return response

    def _ask(self, values: Sequence[Any]) -> bool:
        """Ask for these partitions and offsets; False if it is not for this shortcut to do."""
        at = 1
        if self._has_sessions:
            if values[1] != FINAL_EPOCH:
                return False
            at = 2
        asked_for = self._asked_for
        for asked, topic in zip(asked_for, self._topics, strict=True):
            asked.topic_partition = new_tuple(TopicPartition, (topic, values[at]))
            if self._has_epochs:
                at += 1
                asked.current_leader_epoch = values[at] if values[at] >= 0 else NO_EPOCH
            asked.fetch_offset = values[at + 1]
            at += 2
            if self._has_fetched_epochs:
                if values[at] >= 0:
                    return False
                at += 1
        return len(asked_for) == 1 or len({each.topic_partition for each in asked_for}) == len(
            asked_for
        )


def _conclude(
    asked_for: list[FetchPartition], answers: Answers, ctx: RequestContext, request: FetchRequest
) -> FetchResponse:
    """The handler of a request of which this was read already."""
    if ctx.services.authorizer is not ALLOW_ALL:
        answers = without_revoked(answers, ctx, asked_for, frozenset())
    count_sent(asked_for)  # what was found is not noted in the context that follows
    replicas, metadata = ctx.services.replicas, ctx.services.metadata
    context = FetchContext.of(
        replicas.fetch_sessions, request, ctx.api_version, metadata.topic_name, is_follower=False
    )
    return answered(answers, ctx, context)
