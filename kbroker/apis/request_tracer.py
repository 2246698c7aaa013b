"""Entries of the requests of a broker, made as they are answered, for those who follow them.

A broker that nobody follows does not ask whether somebody does: the first reader makes requests
take another way, in which each is decoded and none is known from before, and the last one that goes
ends that. On that way a request carries a draft of its entry in its header; the stage next to the
handlers writes down what is asked and which codes are answered.

Law: a request is answered as if nobody followed, whatever becomes of its entry. A draft keeps names
and codes, never a message.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter_ns
from typing import Any, Final

from kbroker.apis.asked_names import AskedNames, TopicName
from kbroker.apis.now_or_later import then
from kbroker.apis.refusal_table import Refused, look_for_codes, name_in, refused_entries
from kbroker.clock import Clock
from kbroker.errors import ErrorCode, ProtocolError
from kbroker.events.event import cut
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.request import (
    NO_VERSION,
    Accepted,
    ConnectionInfo,
    NoResponse,
    Request,
    Response,
)
from kbroker.tracing.trace_entry import FEW, Asker, Coded, TraceEntry
from kbroker.tracing.trace_reader import TraceReader

_log = logging.getLogger(__name__)

READERS_MAX: Final = 8

Result = Response | NoResponse
Later = Awaitable[Result | Accepted[Result]]
Handle = Callable[[Request], Result | Later]
Handler = Callable[..., Any]


class TooManyReadersError(Exception):
    """So many follow what the broker is asked that nobody else may."""


class RequestTracer:
    """Makes an entry of each request that a reader wants."""

    def __init__(self, clock: Clock, topic_name: TopicName, switch: Callable[[bool], None]) -> None:
        """`topic_name` says which topic has an id; `switch` is called with True before requests are
        to come here, and with False when they need not any more.
        """
        self._clock = clock
        self._topic_name = topic_name
        self._readers: list[TraceReader] = []
        self._has_failed = False
        self._switch = switch

    def open(self, reader: TraceReader) -> None:
        """Give a reader what is asked from now on. Raises TooManyReadersError."""
        if len(self._readers) >= READERS_MAX:
            raise TooManyReadersError(f"{READERS_MAX} follow the requests of this broker already")
        self._readers.append(reader)
        if len(self._readers) == 1:
            self._switch(True)

    def close(self, reader: TraceReader) -> None:
        """Give a reader no more; it may have been closed before, or never opened."""
        if reader in self._readers:
            self._readers.remove(reader)
            if not self._readers:
                self._switch(False)

    def handle(self, handle: Handle, request: Request) -> Result | Later:
        """Have a request answered by `handle`, and make its entry once it is."""
        header, connection = request.header, request.connection
        api = ApiKey(header.api_key).api_name
        who = api, header.client_id, connection.peer_host, connection.peer_port
        if not any(reader.wanted.may_match(*who) for reader in self._readers):
            return handle(request)
        draft = _Draft(request, api, self._clock.now_ms(), AskedNames(self._topic_name))
        traced = _TracedHeader._make(header)
        traced.draft = draft
        try:
            result: Any = handle(request._replace(header=traced))
        except ProtocolError:
            self._end(NoResponse(close=True), draft)
            raise
        return then(result, self._end, draft)

    def noted(self, handler: Handler) -> Handler:
        """Return a handler whose requests and answers are written down in their drafts."""

        def handle(ctx: Any, request: Any) -> Any:
            draft = _draft_of(ctx.header)
            if draft is None:
                return handler(ctx, request)
            draft.ask(ctx.services, request)
            return then(handler(ctx, request), draft.answer, name_in(request))

        return handle

    def note_code(self, header: RequestHeader, code: int) -> None:
        """Write down that all of a request is refused."""
        draft = _draft_of(header)
        if draft is not None:
            draft.refuse([Refused("", "", code)])

    def _end(self, result: Result, draft: _Draft) -> Result:
        try:
            entry = draft.entry(result)
            codes = {ErrorCode(code).name for code in draft.codes}
            for reader in self._readers:
                if reader.wanted.may_match(
                    entry.api, draft.header.client_id, entry.asker.host, entry.asker.port
                ) and reader.wanted.matches(entry, draft.asked.topics, codes):
                    reader.add(entry)
        except Exception:  # a bug here must not cost a client its answer
            if not self._has_failed:
                _log.exception("a request is missing where requests are followed")
            self._has_failed = True
        return result


class _TracedHeader(RequestHeader):
    """The header of a request that is followed."""

    draft: _Draft | None = None


def _draft_of(header: RequestHeader) -> _Draft | None:
    return header.draft if isinstance(header, _TracedHeader) else None


class _Draft:
    """A request as far as it has come: who asks, for what, with which codes."""

    __slots__ = (
        "_api",
        "_at_ms",
        "_began_ns",
        "_connection",
        "_refused",
        "_refused_count",
        "_size_bytes",
        "asked",
        "codes",
        "header",
    )

    def __init__(self, request: Request, api: str, at_ms: int, asked: AskedNames) -> None:
        self._began_ns = perf_counter_ns()
        self._api = api
        self._at_ms = at_ms
        self._connection = request.connection
        self._size_bytes = request.size_bytes
        self.header = request.header
        self.asked = asked
        self.codes: set[int] = set()
        self._refused: list[Refused] = []  # the first ones: a request in parts may have a million
        self._refused_count = 0

    def ask(self, services: Any, request: Any) -> None:
        """Take the names from a request, or from a part of it."""
        self.asked.add(request)
        if self.header.api_key == ApiKey.FETCH and request.session_id:
            session = services.replicas.fetch_sessions.find(request.session_id)
            if session is not None:  # it goes on with partitions that it does not name again
                partitions = session.partitions
                places = (each.topic_partition for each in partitions.values())
                self.asked.add_partitions(places, len(partitions))

    def answer(self, answer: Any, name: str) -> Any:
        """Take the codes from an answer, or from a part of it; `name` is what all of it is about.
        Returns the answer.
        """
        if not isinstance(answer, NoResponse) and look_for_codes(type(answer))(answer):
            self.refuse(list(refused_entries(answer, name)))
        return answer

    def refuse(self, refused: Sequence[Refused]) -> None:
        """Take the codes of some entries."""
        self.codes.update(each.code for each in refused)
        self._refused += refused[: FEW - len(self._refused)]
        self._refused_count += len(refused)

    def entry(self, result: Result) -> TraceEntry:
        """Return the entry of a request that was answered so."""
        answer_bytes, is_closed = None, False
        if isinstance(result, Response):
            answer_bytes = sum(map(len, result.pieces))
        else:
            is_closed = result.close
        return TraceEntry(
            at_ms=self._at_ms,
            took_ns=perf_counter_ns() - self._began_ns,
            api=self._api,
            version=self.header.api_version,
            correlation_id=self.header.correlation_id,
            asker=asker_of(self.header.client_id, self._connection),
            asked=self.asked.asked_for(),
            request_bytes=self._size_bytes,
            answer_bytes=answer_bytes,
            is_closed=is_closed,
            codes=tuple(self._coded(each) for each in self._refused),
            code_count=self._refused_count,
        )

    def _coded(self, refused: Refused) -> Coded:
        topic_id, about = refused.topic, refused.what
        if topic_id in self.asked.by_id:
            about = self.asked.by_id[topic_id] + about.removeprefix(topic_id)
        return Coded(code=ErrorCode(refused.code).name, about=cut(about))


def asker_of(client_id: str | None, connection: ConnectionInfo) -> Asker:
    """Return who is at the other end of a connection, with texts that may be kept."""
    software, version = connection.client_software_name, connection.client_software_version
    return Asker(
        client_id=None if client_id is None else cut(client_id),
        host=connection.peer_host,
        port=connection.peer_port,
        software=cut(software if version == NO_VERSION else f"{software} {version}"),
        principal=cut(connection.principal),
        listener=connection.listener_name,
        is_forwarded=connection.is_forwarded,
    )
