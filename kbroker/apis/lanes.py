"""The short way of requests that repeat an earlier one of their connection.

A client sends the same few requests again and again, with other offsets or records in them. Each
connection keeps templates of what it was sent (see `protocol/template.py`), beside the message that
was decoded then. A request that fits one is not decoded: its values are put into that message,
which goes to the API's handler as if it had just been decoded.

Law: only decoding is left out. Every stage that an API's registration asks for is inside the
handler that is called, and quotas come after it, in one place for both ways: this way can forget
none. A shortcut, which stands in place of a handler, is taken only if there are no such stages (see
`Served`), and what it answers is counted by its meter (see `QuotaMeter`). Once others are to be
asked, all that was learnt before is forgotten. What does not fit, whatever it is, is decoded as if
there were no templates. APIs say with `repeats` that their handlers keep nothing of a request
beyond its answer.

Templates are bounded per connection and in all. One that never fitted again makes the connection
learn more slowly, so that what never repeats costs next to nothing. What one connection has learnt
and any other may use as well, its shortcut says so, is at hand for all: a client that has just
connected need not repeat itself.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter_ns
from typing import Any

from kbroker.apis.context import Later, RequestContext, Result
from kbroker.apis.quota_meter import QuotaMeter
from kbroker.apis.served_api import Served
from kbroker.apis.shortcut import Answered, HandlerToCall, Shortcut
from kbroker.memory_room import MemoryRoom
from kbroker.model import new_tuple
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.request import (
    Accepted,
    Coming,
    ConnectionInfo,
    NoResponse,
    Request,
    Response,
)
from kbroker.protocol.schema import Message, copied
from kbroker.protocol.template import Template

LANES_MAX = 16  # of a connection
SHARED_MAX = 64  # versions and client ids whose templates all connections may use
SHARED_ALIKE_MAX = 4  # templates of each
LARGEST_BYTES = 4 * 1024  # of a request without its records
ROOM_BYTES = 1024 * 1024  # of those of all connections
_WAIT = 2  # requests that are decoded until one is learnt: many clients send but one
_LONGEST_WAIT = 1024
_COMPARED_BYTES_MAX = 64 * 1024  # of a frame with its records

_NO_FRAME = memoryview(b"")
_SIZE_BYTES = 4

Answer = Callable[[Served, Request, RequestContext, Message, HandlerToCall | None], Result | Later]


class LaneRoom:
    """The bytes that the templates of all connections may take together, without their records;
    what is kept beside each takes ten to twenty times as much.

    Those that are not one connection's alone are kept here.
    """

    __slots__ = ("_shared", "left")

    def __init__(self, size_bytes: int = ROOM_BYTES) -> None:
        self.left = size_bytes
        self._shared: _Shared = {}  # the last learnt at the end

    def find(self, served: Served, request: Request) -> _Lane | None:
        """A lane for a connection that has sent this request; None if nobody sent one like it."""
        frame = request.frame
        alike = self._shared.get((served, request.header.client_id))
        if alike is None or len(frame) > _COMPARED_BYTES_MAX:
            return None
        buffer = bytearray(frame)
        for lane in alike:
            if lane.template.weight <= self.left and lane.template.read(buffer, 0, len(buffer)):
                return lane.twin()
        return None

    def share(self, lane: _Lane) -> None:
        """Keep what a connection has learnt for others; the oldest goes."""
        if lane.template.weight > self.left:
            return
        self.left -= lane.template.weight
        shared = lane.twin()
        shared.message = copied(lane.message)
        key = lane.served, lane.client_id
        alike = self._shared.pop(key, [])
        alike.append(shared)
        self._shared[key] = alike
        if len(alike) > SHARED_ALIKE_MAX:
            self.left += alike.pop(0).template.weight
        if len(self._shared) > SHARED_MAX:
            self._give_back(self._shared.pop(next(iter(self._shared))))

    def forget(self) -> None:
        """Keep nothing for connections that come, as other services are in force."""
        for lanes in self._shared.values():
            self._give_back(lanes)
        self._shared.clear()

    def _give_back(self, lanes: list[_Lane]) -> None:
        self.left += sum(lane.template.weight for lane in lanes)


class _Lane:
    """One template, with a message of its own as soon as one is filled in."""

    __slots__ = (
        "client_id",
        "is_used",
        "message",
        "meter",
        "served",
        "shortcut",
        "targets",
        "template",
        "viewing",
    )

    def __init__(
        self, template: Template, served: Served, client_id: str | None, message: Message
    ) -> None:
        self.template = template
        self.served = served
        self.shortcut: Shortcut | None = None
        self.client_id = client_id
        self.is_used = False  # at least once
        self.meter: QuotaMeter | None = None  # given if a shortcut answers, and is to be counted
        self.message = message
        self.targets: list[tuple[Any, str]] | None = None  # in a message that nobody else has
        self.viewing: list[tuple[Any, str]] = []

    def twin(self) -> _Lane:
        """A lane for another connection."""
        twin = _Lane(self.template, self.served, self.client_id, self.message)
        twin.shortcut = self.shortcut
        return twin

    def take_message(self) -> None:
        """Use a message that nobody else has."""
        self.message = message = copied(self.message)
        self.targets = targets_of(self.template, message)
        self.viewing = [
            target
            for target, hole in zip(self.targets, self.template.holes, strict=True)
            if hole.is_records
        ]
        self.let_go()

    def filled(self, values: list[Any]) -> Message:
        """The message with these values, which follow the correlation id."""
        if self.targets is None:
            self.take_message()
            assert self.targets is not None
        for (target, name), value in zip(self.targets, values, strict=True):
            setattr(target, name, value)
        return self.message

    def let_go(self) -> None:
        """Look at no buffer any more."""
        for target, name in self.viewing:
            setattr(target, name, None)


def targets_of(template: Template, message: Message) -> list[tuple[Any, str]]:
    """The structs of a message, and their fields, that a template reads values for."""
    targets = []
    for path, name, _ in template.holes:
        target: Any = message
        for array, index in path:
            target = getattr(target, array)[index]
        targets.append((target, name))
    return targets


_Shared = dict[tuple[Served, str | None], list[_Lane]]


class Lanes:
    """The templates of one connection (a ShortWay)."""

    __slots__ = (
        "_answer",
        "_connection",
        "_lanes",
        "_memory",
        "_missed",
        "_wait",
        "is_viewed",
        "room",
    )

    def __init__(
        self,
        connection: ConnectionInfo,
        memory: MemoryRoom,
        room: LaneRoom,
        answer: Answer,
    ) -> None:
        """`memory` is that of large requests, `room` for templates; `answer` calls a handler, and
        encodes what it says.
        """
        self._connection = connection
        self._memory = memory
        self.room = room
        self._answer = answer
        self._lanes: list[_Lane] = []  # the last used comes first
        self._missed = 0  # since one was learnt
        self._wait = _WAIT
        self.is_viewed = False
        connection.when_closed += (self._forget,)

    def __len__(self) -> int:
        """The number of templates."""
        return len(self._lanes)

    @property
    def apis(self) -> Mapping[int, int]:
        """The versions of the requests that the connection repeats, by API key."""
        return {lane.served.key: lane.served.version for lane in self._lanes}

    def answer(self, buffer: bytearray, start: int, end: int) -> bytes | Result | Later | None:
        """The answer to a request, as ShortWay says."""
        for lane in self._lanes:
            values = lane.template.read(buffer, start, end)
            if values is None:
                continue
            if not lane.served.is_in_force:
                self._forget()
                return None
            lane.is_used = True
            if lane is not self._lanes[0]:
                self._lanes.remove(lane)
                self._lanes.insert(0, lane)
            counters = lane.served.counters
            if lane.shortcut is not None:
                began_ns = perf_counter_ns()
                counters.requests += 1
                try:
                    answer = lane.shortcut.answer(values)
                except Exception as error:  # where bugs are caught
                    answer = partial(_raise, error)
                if isinstance(answer, bytes) and lane.meter is None:
                    took_ns = perf_counter_ns() - began_ns
                    counters.times[took_ns.bit_length()] += 1
                    counters.time_ns += took_ns
                    if took_ns > counters.slow_ns:
                        self._tell_slow(lane, values, end - start, took_ns)
                    return answer
                return self._conclude(lane, values, end - start, answer, began_ns)
            if self._memory.is_full:
                return None
            counters.requests += 1
            return self._fill(lane, values, end - start, None, perf_counter_ns())
        return None

    def _conclude(
        self,
        lane: _Lane,
        values: list[Any],
        size_bytes: int,
        answer: Answered | Coming[Answered] | None,
        began_ns: int,
    ) -> bytes | Result | Later:
        """Make of what a shortcut has said what the handler of requests would give."""
        self.is_viewed = False
        if isinstance(answer, Response) or isinstance(answer, bytes):  # noqa: SIM101  as in `handle`
            counters, took_ns = lane.served.counters, perf_counter_ns() - began_ns
            counters.times[took_ns.bit_length()] += 1
            counters.time_ns += took_ns
            if took_ns > counters.slow_ns:
                self._tell_slow(lane, values, size_bytes, took_ns)
            if lane.meter is not None and isinstance(answer, bytes):
                return lane.meter.counted(answer, size_bytes, took_ns)
            return answer
        if isinstance(answer, Coming):
            self._connection.waits_for = answer.outcome
            used_ns = 0 if lane.meter is None else perf_counter_ns() - began_ns
            return answer.ended_by(
                partial(self._end, answer.finish, lane, values, size_bytes, began_ns, used_ns)
            )
        return self._fill(lane, values, size_bytes, answer, began_ns)

    def _end(
        self,
        finish: Callable[[], Answered],
        lane: _Lane,
        values: list[Any],
        size_bytes: int,
        began_ns: int,
        used_ns: int,
    ) -> Any:
        """The answer of a request that has waited on its shortcut, and had used the loop before."""
        self._connection.waits_for = None
        try:
            answer = finish()
        except Exception as error:  # where bugs are caught
            answer = partial(_raise, error)
        if not isinstance(answer, bytes | Response):
            return self._fill(lane, values, size_bytes, answer, began_ns)
        counters, took_ns = lane.served.counters, perf_counter_ns() - began_ns
        counters.waited_times[took_ns.bit_length()] += 1
        counters.waited_ns += took_ns
        if took_ns > counters.slow_ns:
            self._tell_slow(lane, values, size_bytes, took_ns)
        result: bytes | Result = answer
        if lane.meter is not None and isinstance(result, bytes):
            result = lane.meter.counted(result, size_bytes, used_ns)
        if not isinstance(result, bytes):
            return result
        return Response([result[_SIZE_BYTES:]]) if result else NoResponse()

    def _fill(
        self,
        lane: _Lane,
        values: list[Any],
        size_bytes: int,
        handler: HandlerToCall | None,
        began_ns: int,
    ) -> Result | Later:
        """Have the request answered that has these values."""
        correlation_id = values.pop(0)
        served, message = lane.served, lane.filled(values)
        connection = self._connection
        header = new_tuple(
            RequestHeader, (served.key, served.version, correlation_id, lane.client_id)
        )
        request = new_tuple(Request, (header, _NO_FRAME, 0, connection, size_bytes))
        ctx = RequestContext(header, connection, served.services, began_ns)
        result = self._answer(served, request, ctx, message, handler)
        is_answered = isinstance(result, Response)
        if is_answered or isinstance(result, NoResponse):
            counters = served.counters
            if ctx.is_of_follower:
                counters = counters.followers
            counters.answered(began_ns, request, message)
        if is_answered:
            lane.let_go()
        elif isinstance(result, Accepted) or not isinstance(result, Coming):
            lane.take_message()  # somebody waits with this one, and the next request may come
        self.is_viewed = not is_answered and lane.template.has_records
        return result

    def _tell_slow(self, lane: _Lane, values: list[Any], size_bytes: int, took_ns: int) -> None:
        """Report a request that a shortcut has answered slowly."""
        served, (correlation_id, *others) = lane.served, values
        message = lane.filled(others)
        header = RequestHeader(served.key, served.version, correlation_id, lane.client_id)
        request = Request(header, _NO_FRAME, 0, self._connection, size_bytes)
        served.counters.tell_slow(request, took_ns, message)
        lane.let_go()

    def missed(self, served: Served, request: Request, message: Message) -> None:
        """Learn a request that was decoded as `message`, if it is time for one, or somebody else's
        connection has learnt it.
        """
        if not served.is_in_force:
            return
        if self._wait == _WAIT and (known := self.room.find(served, request)) is not None:
            self._add(known)
            return
        self._missed += 1
        if self._missed < self._wait:
            return
        self._missed = 0
        version = request.header.api_version
        template = Template.of(served.request_class, version, request.frame, request.body_offset)
        if template.weight > min(LARGEST_BYTES, self.room.left):
            self._learn_slower()  # it took longer to find out than to decode the request
            return
        lane = _Lane(template, served, request.header.client_id, message)
        lane.take_message()
        if served.shortcut is not None and not self._is_asked_first(served, request):
            lane.shortcut = served.shortcut(served.services, served, message, self._connection)
        self._add(lane)
        if lane.shortcut is not None and lane.shortcut.is_for_all:
            self.room.share(lane)

    def _is_asked_first(self, served: Served, request: Request) -> bool:
        """Whether a consumer has limits, which are asked before its session knows the answer."""
        is_fetch = served.key == ApiKey.FETCH
        return is_fetch and bool(QuotaMeter.of(served, self._connection, request.header.client_id))

    def _add(self, lane: _Lane) -> None:
        if lane.shortcut is not None:
            lane.meter = QuotaMeter.of(lane.served, self._connection, lane.client_id)
        self.room.left -= lane.template.weight
        self._lanes.insert(0, lane)
        if len(self._lanes) > LANES_MAX:
            oldest = self._lanes.pop()
            self.room.left += oldest.template.weight
            if oldest.is_used:
                self._wait = _WAIT
            else:
                self._learn_slower()

    def _learn_slower(self) -> None:
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def _forget(self) -> None:
        """Let all templates go, as the connection has gone or other services are in force."""
        for lane in self._lanes:
            self.room.left += lane.template.weight
        self._lanes.clear()


def _raise(error: Exception, _ctx: RequestContext, _request: Message) -> None:
    raise error
