"""The shortcut of consumers' Fetch requests that go on with a session: they name the partitions
whose offsets have moved, or none.

Law: the session is taken up, read and answered as by the handler. A request that may be refused, or
that adds a partition, is left to the handler before anything is done; whatever is more than records
and offsets goes into the answer that the handler would have made of what was read. Under an
authorizer the session is taken up only if the client may read all topics that are in it, by now;
if the request waits, it is asked again when the answer is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

from kbroker.apis.authorizer import ALLOW_ALL
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.fetch_answers import Answers, answered, without_revoked
from kbroker.apis.fetch_in_turns import FEW
from kbroker.apis.fetch_versions import params_of
from kbroker.apis.permitted_shortcut import TopicReader
from kbroker.apis.served_api import Served
from kbroker.apis.shortcut import Answered
from kbroker.model import CONSUMER_REPLICA_ID, new_tuple
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.request import Coming, ConnectionInfo, Piece, Response
from kbroker.protocol.template import Form
from kbroker.replication.reads.fetch_context import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    ORIGINS,
    FetchContext,
    News,
)
from kbroker.replication.reads.fetch_params import NO_EPOCH, FetchPartition
from kbroker.replication.reads.fetch_session import find_names

FORMS_MAX = 16  # of a shortcut: one for each topic and number of partitions in an answer
_FIRST_VERSION_WITH_EPOCHS = 9
_FIRST_VERSION_WITH_FETCHED_EPOCHS = 12


class SessionFetchShortcut:
    """Answers the requests of one shape, in one session."""

    is_for_all: ClassVar[bool] = False

    __slots__ = (
        "_by_id",
        "_connection",
        "_fetch",
        "_forms",
        "_has_epochs",
        "_has_fetched_epochs",
        "_named",
        "_no_news",
        "_origin",
        "_params",
        "_reader",
        "_request",
        "_served",
        "_sessions",
        "_topic_name",
    )

    def __init__(
        self,
        services: Services,
        served: Served,
        request: FetchRequest,
        connection: ConnectionInfo,
    ) -> None:
        """`request` is of a consumer, and forgets no partition."""
        version = served.version
        self._served = served
        self._connection = connection
        self._reader = TopicReader.of(services, connection)
        self._sessions = services.replicas.fetch_sessions
        self._fetch = services.replicas.fetches.fetch
        self._topic_name = services.metadata.topic_name
        self._params = params_of(services, version, request, CONSUMER_REPLICA_ID)
        self._request = FetchRequest(
            session_id=request.session_id, isolation_level=request.isolation_level
        )
        self._by_id = by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        self._origin = ORIGINS[by_id][False]
        self._named = [  # the topic's part of a session's key, and what each request repeats
            (topic.topic_id.int if by_id else topic.topic, each)
            for topic in request.topics
            for each in topic.partitions
        ]
        self._has_epochs = version >= _FIRST_VERSION_WITH_EPOCHS
        self._has_fetched_epochs = version >= _FIRST_VERSION_WITH_FETCHED_EPOCHS
        self._forms: dict[tuple[int | str, int], Form] = {}
        self._no_news = self._form_of([])

    def answer(self, values: list[Any]) -> Answered | Coming[Answered] | None:
        """The answer to a request with these values, as `Shortcut` says."""
        context = self._context(values)
        if context is None:
            return None
        answers = self._fetch(self._params, context.asked_for, context)
        if isinstance(answers, list):
            return self._answered(values[0], context, answers)
        assert isinstance(answers, asyncio.Future), "they are few"
        return Coming(answers, partial(self._ended, values[0], context, answers))

    def _context(self, values: list[Any]) -> FetchContext | None:
        """Take the session up, with the offsets that have moved; None if the handler has to."""
        request = self._request
        request.session_epoch = values[1]
        session = self._sessions.find(request.session_id)
        if (
            session is None
            or session.epoch != values[1]
            or session.origin != self._origin
            or not 0 < len(session.partitions) <= FEW
            or not self._may_read(session.partitions.values())
        ):
            return None
        at = 2
        for topic, repeated in self._named:
            asked = session.partitions.get((topic, values[at]))
            if asked is None:
                return None
            asked.max_bytes = repeated.partition_max_bytes
            asked.log_start_offset = repeated.log_start_offset
            if self._has_epochs:
                at += 1
                asked.current_leader_epoch = values[at] if values[at] >= 0 else NO_EPOCH
            asked.fetch_offset = values[at + 1]
            at += 2
            if self._has_fetched_epochs:
                asked.last_fetched_epoch = values[at] if values[at] >= 0 else NO_EPOCH
                at += 1
        context = FetchContext(
            self._sessions,
            request,
            self._served.version,
            is_follower=False,
            connection=self._connection,
        )
        context.ready(request)
        if self._by_id:
            find_names(context.asked_for, self._topic_name)
        return context

    def _may_read(self, partitions: Iterable[FetchPartition]) -> bool:
        """Whether the client may read all these now; not if a topic's name is still unknown."""
        if self._reader is None:
            return True
        topics = {asked.topic_partition.topic for asked in partitions}
        return "" not in topics and self._reader.may_read(topics)

    def _ended(
        self, correlation_id: int, context: FetchContext, coming: asyncio.Future[Answers]
    ) -> Answered:
        """The answer to a request that has waited."""
        answers = coming.result()
        if context.is_over or not self._may_read(context.asked_for):
            return partial(_conclude, context, answers)
        return self._answered(correlation_id, context, answers)

    def _answered(self, correlation_id: int, context: FetchContext, answers: Answers) -> Answered:
        for asked, data in zip(context.asked_for, answers, strict=True):
            if data.error_code or data.aborted_transactions or asked.last_fetched_epoch >= 0:
                return partial(_conclude, context, answers)
        for asked in context.asked_for:
            asked.counters.bytes_out += asked.found_bytes
        news = context.news(context.asked_for, answers)
        if not news:
            return self._no_news.frame((correlation_id,))
        filled: list[int] = [correlation_id]
        records: list[Piece] = []
        topic: int | str | None = None
        for asked, data in news:
            of_topic = asked.topic_id.int if self._by_id else asked.topic_partition.topic
            if topic is not None and topic != of_topic:
                return partial(_respond, context, news)
            topic = of_topic
            filled += (
                data.partition_index,
                data.high_watermark,
                data.last_stable_offset,
                data.log_start_offset,
            )
            records.append(data.records)  # type: ignore[arg-type]
        assert topic is not None
        key = topic, len(news)
        form = self._forms.get(key)
        if form is None:
            if len(self._forms) == FORMS_MAX:
                self._forms.clear()
            form = self._forms[key] = self._form_of(news)
        response: Response = new_tuple(Response, (form.pieces(filled, records), 0, None))
        return response

    def _form_of(self, news: News) -> Form:
        """The form of answers with news of so many partitions of one topic."""
        response = FetchResponse(session_id=self._request.session_id)
        if news:
            asked = news[0][0]
            aborted: list[Any] | None = [] if self._request.isolation_level else None
            entries = [
                FetchResponse.PartitionData(aborted_transactions=aborted, records=b"") for _ in news
            ]
            response.responses = [
                FetchResponse.FetchableTopicResponse(
                    topic=asked.topic_partition.topic, topic_id=asked.topic_id, partitions=entries
                )
            ]
        return Form(response, self._served.version, self._served.header.pack(0))


def _conclude(
    context: FetchContext, answers: Answers, ctx: RequestContext, _request: FetchRequest
) -> FetchResponse:
    """The handler of a request of which this was read already."""
    if ctx.services.authorizer is not ALLOW_ALL:
        answers = without_revoked(answers, ctx, context.asked_for, frozenset())
    return answered(answers, ctx, context)


def _respond(
    context: FetchContext, news: News, _ctx: RequestContext, _request: FetchRequest
) -> FetchResponse:
    """The handler of a request of which this is news, without errors."""
    return context.with_news(news)
