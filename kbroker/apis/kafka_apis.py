"""From a request to its answer: finds the API, decodes, calls the handler, encodes.

A request passes stages, as its API's registration says: its sender is checked against the cluster
(`broker_only_requests`), the client must be authorized (`authorization`), the handler answers here
or on the controller (`forwarding`), and what was used is counted against the client's quotas. A
stage that has nothing to decide is not there.

Law: whatever a client sends, exactly one thing happens, so that it never waits in vain: an answer,
no answer (acks=0), or ProtocolError, which closes the connection. A bug in a handler is answered
with UNKNOWN_SERVER_ERROR and logged, once per place and minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import repeat
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from kbroker.apis.api_versions import unsupported_version_response
from kbroker.apis.client_quotas import Quotas
from kbroker.apis.context import (
    AnswerRequest,
    LargeContext,
    Later,
    RequestContext,
    Result,
    Services,
)
from kbroker.apis.known_answers import keep, known_answer
from kbroker.apis.lanes import LaneRoom, Lanes
from kbroker.apis.large_answers import bytes_in_memory, bytes_to_come
from kbroker.apis.large_requests import (
    FEW_BYTES,
    Beside,
    answered_in_parts,
    bytes_as_a_whole,
    bytes_of_produce,
    check_size,
    let_go,
)
from kbroker.apis.registry import Api, Handler
from kbroker.apis.request_counters import RequestStats
from kbroker.apis.request_parts import AnswerInParts, RequestInParts
from kbroker.apis.served_api import Served
from kbroker.apis.served_versions import ServedVersions
from kbroker.apis.throttling import OnLoop, throttle_ms, throttled
from kbroker.apis.whole_refusals import WholeRefusals, note_code
from kbroker.errors import ErrorCode, KafkaError, ProtocolError, TooManyElementsError
from kbroker.memory_room import REQUESTS_BYTES, SMALL_REQUESTS_BYTES, MemoryRoom, Share
from kbroker.model import new_tuple
from kbroker.peers.cluster_action import Sender
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decoder_of
from kbroker.protocol.part_encoder import encode_runs
from kbroker.protocol.request import Accepted, Coming, NoResponse, Request, Response
from kbroker.protocol.schema import Message
from kbroker.rare_collections import collecting_all_rarely
from kbroker.turns import turn

if TYPE_CHECKING:
    from kbroker.apis.request_tracer import RequestTracer

ENVELOPE_KEY = 58
_PARTS_WITH_TEXT = 40  # of a refusal; else it would be said a million times
_WAIT_FOR_OTHERS = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})


class KafkaApis:
    """Answers requests with the handlers of `apis`. Owned by the event loop."""

    __slots__ = (
        "_beside",
        "_brokers_room",
        "_refusals",
        "_served",
        "_services",
        "lane_room",
        "room",
        "small_room",
        "stats",
    )

    def __init__(self, apis: Mapping[int, Api], services: Services) -> None:
        """`apis` is what `registry.registered()` returned."""
        self.room = services.room
        self.small_room = MemoryRoom(SMALL_REQUESTS_BYTES, self.room)
        # What a controller orders must not wait for clients that fill the other one.
        self._brokers_room = MemoryRoom(REQUESTS_BYTES // 4)
        self._beside = {sender: Beside() for sender in Sender}
        self.lane_room = LaneRoom()
        self.stats = RequestStats()
        self._served = ServedVersions(apis, self.stats)
        self.use(services)
        self._refusals = WholeRefusals(self.stats, services.clock)

    def use(self, services: Services) -> None:
        """Answer with these services, another authorizer or other quotas, from the next request on.

        What is in work ends as it began. Whatever was worked out for other services is forgotten:
        the stages around handlers, and what connections have learnt.
        """
        self.lane_room.forget()
        tracer = services.tracer
        answer: AnswerRequest = (
            self.handle if tracer is None else partial(tracer.handle, self.handle)
        )
        self._services = replace(services, answer=answer)
        self._served.use(self._services)
        if services.refusals is not None:
            services.refusals.count = self.stats.refused

    def follow(self, tracer: RequestTracer | None) -> None:
        """Let this note what is asked from the next request on, None: nobody does."""
        self.use(replace(self._services, tracer=tracer))

    def limit(self, quotas: Quotas | None) -> None:
        """Let these quotas count what is asked from the next request on, None: nobody does."""
        self.use(replace(self._services, quotas=quotas))

    def handle(self, request: Request) -> Result | Later:
        """Answer a request, at once if the handler need not wait. Raises ProtocolError."""
        began_ns = perf_counter_ns()
        header = request.header
        served = self._served.get(header[:2])  # key and version
        if served is None:
            if self._served.asks_for_newer_versions(header):
                return self._unsupported_api_versions(request, began_ns)
            served = self._served.serve(header)
        counters = served.counters
        counters.requests += 1
        known = None
        if served.known is not None:
            known = known_answer(served, request, self.room, began_ns)
        result: Result | Later
        if known is not None:
            result = known
        else:
            frame = request.frame
            if len(frame) > served.large_bytes:
                return self._handle_large(served, request, began_ns)
            if served.parts is not None and (len(frame) > FEW_BYTES or self.room.is_full):
                return self._handle_when_there_is_room(served, request, began_ns)
            ctx = RequestContext(header, request.connection, served.services, began_ns)
            result = self._handle_small(served, request, ctx)
            if not (isinstance(result, Response) or isinstance(result, NoResponse)):  # noqa: SIM101  twice as fast as a tuple
                return result
            if ctx.is_of_follower:
                counters = counters.followers
        took_ns = perf_counter_ns() - began_ns
        counters.times[took_ns.bit_length()] += 1
        counters.time_ns += took_ns
        if took_ns > counters.slow_ns:
            counters.tell_slow(request, took_ns, None)
        return result

    async def _handle_when_there_is_room(
        self, served: Served, request: Request, began_ns: int
    ) -> Result:
        share = (self.room if self.room.is_full else self.small_room).share(request.connection)
        await share.take(bytes_as_a_whole(len(request.frame), served.most_elements))
        await turn()  # hundreds may be let in at once
        try:
            ctx = LargeContext(request, served.services, share, began_ns=began_ns)
            ctx.waited_ns = perf_counter_ns() - began_ns
            result = self._handle_small(served, request, ctx)
            if isinstance(result, Response | NoResponse):
                served.counters.answered(began_ns, request)
            while not isinstance(result, Response | NoResponse):
                result = await result
        except BaseException:
            share.give_back()  # before the error, which holds it, is gone
            raise
        if isinstance(result, NoResponse):
            return result
        share.hold(bytes_in_memory(result.pieces))
        return result._replace(share=share)

    def _handle_small(
        self, served: Served, request: Request, ctx: RequestContext
    ) -> Result | Later:
        frame = request.frame
        try:
            message, end = served.decode(frame, request.body_offset)
        except TooManyElementsError as error:
            if served.is_produce:
                return self._handle_large(served, request, ctx.began_ns)
            return self._refuse_many(served, request, error, ctx)
        if end != len(frame):
            self.stats.trailing_bytes.value += 1
        elif served.known is not None:
            ctx.since = served.known.last_change(served.services, request)
        elif served.repeats:
            try:
                self._missed(served, request, message)
            except Exception as error:  # as in `_answer`
                return self._refuse(served, request, message, error, ctx)
        return self._answer(served, request, ctx, message)

    def _missed(self, served: Served, request: Request, message: Message) -> None:
        """Let the connection of a request learn it, if it is sent again and again."""
        connection = request.connection
        if connection.is_forwarded or connection.is_closed:
            return
        lanes = connection.short_way
        if not isinstance(lanes, Lanes):
            lanes = Lanes(connection, self.room, self.lane_room, self._answer)
            connection.short_way = lanes
        lanes.missed(served, request, message)

    def _answer(
        self,
        served: Served,
        request: Request,
        ctx: RequestContext,
        message: Message,
        handler: Handler | None = None,
    ) -> Result | Later:
        """Call the handler, the API's own if no other is given, and encode what it answers."""
        try:
            answer = (handler or served.handler)(ctx, message)
            if isinstance(answer, served.response_class):
                header = request.header
                pieces = served.encode(answer, served.header.pack(header.correlation_id))
                if ctx.since is not None:
                    keep(served, ctx, request, pieces)
                if served.quotas is None:
                    return new_tuple(Response, (pieces, 0, None))
                return throttled(served, request, answer, pieces, message, ctx)
        except ProtocolError:
            raise
        except Exception as error:  # the one place where bugs are caught
            return self._refuse(served, request, message, error, ctx)
        return self._later(served, request, ctx, message, answer)

    async def _handle_large(
        self, served: Served, request: Request, began_ns: int
    ) -> Result | Accepted[Result]:
        listener_name = request.connection.listener_name
        is_of_client = served.sender is Sender.ANYBODY
        if not served.is_produce and (
            is_of_client or not self._services.peers.are_heard_on(listener_name)
        ):
            check_size(served.name, len(request.frame))
        share = (self.small_room if is_of_client else self._brokers_room).share(request.connection)
        ctx = LargeContext(request, served.services, share, began_ns=began_ns)
        answer = self._answer_whole if served.parts is None else self._answer_in_parts
        await OnLoop(turn(), ctx)  # hundreds may come at once
        try:
            with collecting_all_rarely():
                result = await OnLoop(answer(served, request, ctx), ctx)
            if not isinstance(result, Accepted):
                served.counters_of(ctx).answered(began_ns, request)
            if isinstance(result, Response):
                await share.take(bytes_in_memory(result.pieces))
                return result._replace(share=share)
        except BaseException:
            share.give_back()  # before the error, which holds it, is gone
            raise
        share.give_back()
        return result

    async def _answer_whole(
        self, served: Served, request: Request, ctx: LargeContext
    ) -> Result | Accepted[Result]:
        try:
            message = await self._read_whole(served, request, ctx.share)
        except TooManyElementsError as error:
            return self._refuse_many(served, request, error, ctx)
        if request.header.api_key in _WAIT_FOR_OTHERS:
            ctx.share.give_back()  # or those whom it waits for may wait for that memory
        try:
            response = served.handler(ctx, message)
            if not isinstance(response, served.response_class):
                response = await response
            if isinstance(response, Accepted):
                answering = self._finish(served, request.without_frame(), ctx, message, response)
                task = asyncio.get_running_loop().create_task(answering, name="accepted")
                return Accepted(task, task.result)
            if isinstance(response, NoResponse):
                return self._unanswered(served, request, response, ctx)
        except ProtocolError:
            raise
        except Exception as error:  # as in `handle`
            if served.is_produce:  # few go wrong as a whole
                return self._refuse(served, request, message, error, ctx)
            told = self._refusals.told(served, request, message, error)
            response = await self._beside[served.sender].run(
                message.error_response, told[0], served.version, told[1]
            )
        head = _head(served, request)
        pieces = await self._beside[served.sender].encoded(response, served.version, head)
        result = throttled(served, request, response, pieces, message, ctx)
        ended = [message, response]
        del message, response
        await let_go(ended)
        return result

    async def _read_whole(self, served: Served, request: Request, share: Share) -> Any:
        if request.header.api_key != ENVELOPE_KEY:  # what is inside takes a share
            takes = bytes_of_produce if served.is_produce else bytes_as_a_whole
            await share.take(takes(len(request.frame), served.most_elements))
        decode = decoder_of(served.request_class, served.version, served.most_elements)
        beside = self._beside[served.sender]
        message, end = await beside.decoded(decode, request.frame, request.body_offset)
        self._count_trailing(request, end)
        return message

    async def _answer_in_parts(
        self, served: Served, request: Request, ctx: LargeContext
    ) -> Response:
        parts, take = served.parts, ctx.share.take
        assert parts is not None
        asked = RequestInParts(
            served.request_class, served.version, parts, request.frame, request.body_offset
        )
        await take(asked.bytes_looked_through)
        await asked.look_through()
        self._count_trailing(request, asked.end)
        ctx.twice = asked.twice
        if served.known is not None and asked.end == len(request.frame):
            ctx.since = served.known.last_change(served.services, request)
        handler, where = partial(served.handler, ctx), (asked, parts, take)
        answer: AnswerInParts | None
        code, text = ErrorCode.NONE, None
        try:
            answer = await answered_in_parts(handler, *where)
        except ProtocolError:
            raise
        except Exception as error:  # as in `handle`
            code, text = self._refusals.told(served, request, asked.rest, error)
            answer = None
        if answer is None:  # outside: the error keeps what was answered before it
            texts = repeat(text, _PARTS_WITH_TEXT)
            answer = await answered_in_parts(
                lambda part: part.error_response(code, served.version, next(texts, None)), *where
            )
            ctx.note_refusal()
        pieces = answer.pieces(_head(served, request))
        keep(served, ctx, request, pieces)
        return throttled(served, request, answer.whole, pieces, asked.rest, ctx)

    def _count_trailing(self, request: Request, end: int) -> None:
        if end != len(request.frame):
            self.stats.trailing_bytes.value += 1

    def _later(
        self, served: Served, request: Request, ctx: RequestContext, message: Message, answer: Any
    ) -> Result | Later:
        """The rest of `handle` for a request that waits, or gets no answer."""
        if isinstance(answer, NoResponse):
            return self._unanswered(served, request, answer, ctx)
        if isinstance(answer, Coming):
            connection = request.connection
            connection.waits_for = answer.outcome
            if connection.is_closed:  # it has gone while the broker started
                answer.outcome.cancel()
            if served.quotas is not None:
                ctx.waited_ns -= perf_counter_ns()
            return answer.ended_by(
                partial(self._ended, served, ctx, request.without_frame(), message, answer.finish)
            )
        return self._finish(served, request, ctx, message, answer)

    async def _finish(
        self,
        served: Served,
        request: Request,
        ctx: RequestContext,
        message: Message,
        answer: Awaitable[Any],
    ) -> Result:
        try:
            response = await (answer if served.quotas is None else OnLoop(answer, ctx))
            result: Result
            if isinstance(response, NoResponse):
                result = self._unanswered(served, request, response, ctx)
            else:
                if response.is_large or response.memory is not None:
                    result = await self._respond_large(served, request, response, message, ctx)
                else:
                    result = self._respond(served, request, response, message, ctx)
                keep(served, ctx, request, result.pieces, result.throttle_ms)
        except ProtocolError:
            raise
        except Exception as error:  # as in `handle`
            result = self._refuse(served, request, message, error, ctx)
        served.counters_of(ctx).waited(ctx.began_ns, request, message)
        return result

    async def _respond_large(
        self,
        served: Served,
        request: Request,
        response: Message,
        message: Message,
        ctx: RequestContext,
    ) -> Response:
        """Take memory for the answer, unless its handler has, and write what is not yet."""
        share, response.memory = response.memory, None
        if share is None:
            share = self.room.share(request.connection)
            await share.take(bytes_to_come(response))  # before it is there: others may be many
        head = _head(served, request)
        if response.is_large:
            with collecting_all_rarely():
                pieces = await self._beside[served.sender].encoded(response, served.version, head)
        else:
            pieces = encode_runs(response, served.version, head)
        await share.take(bytes_in_memory(pieces))
        result = throttled(served, request, response, pieces, message, ctx)
        return result._replace(share=share)

    def _ended(
        self,
        served: Served,
        ctx: RequestContext,
        request: Request,
        message: Message,
        finish: Callable[[], Any],
    ) -> Result:
        if served.quotas is not None:
            ctx.waited_ns += perf_counter_ns()
        request.connection.waits_for = None
        result: Result
        try:
            result = self._respond(served, request, finish(), message, ctx)
        except ProtocolError:
            raise
        except Exception as error:  # as in `handle`
            result = self._refuse(served, request, message, error, ctx)
        took_ns = perf_counter_ns() - ctx.began_ns
        counters = served.counters.followers if ctx.is_of_follower else served.counters
        counters.waited_times[took_ns.bit_length()] += 1
        counters.waited_ns += took_ns
        if took_ns > counters.slow_ns:
            counters.tell_slow(request, took_ns, message)
        return result

    def _respond(
        self,
        served: Served,
        request: Request,
        response: Message,
        message: Message | None,
        ctx: RequestContext,
    ) -> Response:
        pieces = served.encode(response, _head(served, request))
        return throttled(served, request, response, pieces, message, ctx)

    def _unanswered(
        self, served: Served, request: Request, result: NoResponse, ctx: RequestContext
    ) -> NoResponse:
        result.throttle_ms = throttle_ms(served, request, ctx, is_answered=False)
        return result

    def _unsupported_api_versions(self, request: Request, began_ns: int) -> Result:
        api, served = self._served.of_unknown_client()
        served.counters.requests += 1
        note_code(served, request, ErrorCode.UNSUPPORTED_VERSION)
        ctx = RequestContext(request.header, request.connection, served.services, began_ns)
        return self._respond(served, request, unsupported_version_response(api), None, ctx)

    def _refuse(
        self,
        served: Served,
        request: Request,
        message: Message,
        error: Exception,
        ctx: RequestContext,
    ) -> Result:
        """The answer of a request that a KafkaError or a bug ended."""
        code, text = self._refusals.told(served, request, message, error)
        if getattr(message, "acks", None) == 0:
            # A producer with acks=0 reads no answers; a closed connection it notices.
            return NoResponse(close=True)
        response = message.error_response(code, served.version, text)
        return self._respond(served, request, response, message, ctx)

    def _refuse_many(
        self, served: Served, request: Request, error: TooManyElementsError, ctx: RequestContext
    ) -> Result:
        """Refuse a request with more entries than its API takes, in an answer that can say so.
        Raises `error` if there is none.
        """
        if not served.has_code:
            raise error
        message = served.request_class()
        refusal = KafkaError(ErrorCode.INVALID_REQUEST, str(error))
        code, text = self._refusals.told(served, request, message, refusal)
        response = message.error_response(code, served.version, text)
        return self._respond(served, request, response, message, ctx)


def _head(served: Served, request: Request) -> bytes:
    return served.header.pack(request.header.correlation_id)
