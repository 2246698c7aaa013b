"""One connection: collects frames, hands requests on, sends answers.

A BufferedProtocol: the loop receives into the channel's own buffer and a frame is processed where
it lies; that is the only copy of it. One request is in work at a time; further frames wait in the
buffer, and when that is full the channel stops reading. A Produce request whose records are
appended is no longer in work: the next one may begin, and the answers stand in line (see
`answer_line`).

Law: bytes that a request being handled still views are never moved or overwritten, as its records
are not copied. The buffer is compacted, replaced or given back only while no request views it.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from kbroker.errors import ProtocolError
from kbroker.memory_room import Share
from kbroker.model import new_tuple
from kbroker.network.answer_line import AnswerLine, AnswerToCome
from kbroker.network.channel_owner import ChannelOwner
from kbroker.network.receive_buffers import LARGEST_KEPT_BYTES, Buffer
from kbroker.network.received import Received
from kbroker.network.request_channel import Settle
from kbroker.network.response_writer import ResponseWriter
from kbroker.network.wire import Receiver, Wire
from kbroker.protocol.frame import SIZE, check_frame_size
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.request import FutureLike, NoResponse, Request, Response
from kbroker.unserved import UnservedError

_log = logging.getLogger(__name__)

_COPIED_BYTES_MAX = 1_024
_REQUESTS_PER_TURN = 8  # then their answers leave, and other connections get the loop
_SIZE_BYTES = 4
_unpack_size = SIZE.unpack_from


class Channel(Receiver):
    """The broker's end of one client connection."""

    __slots__ = (
        "_busy",
        "_closing",
        "_delays",
        "_eof",
        "_in_work",
        "_is_gated",
        "_line",
        "_loop",
        "_max_frame_bytes",
        "_muted",
        "_opened",
        "_owner",
        "_paused",
        "_received",
        "_running",
        "_share",
        "_viewed",
        "_waiting_for_room",
        "_wire",
        "bytes_in",
        "connection",
        "get_buffer",
        "requests",
        "writer",
    )

    def __init__(self, owner: ChannelOwner, wire: Wire) -> None:
        self._owner = owner
        self._wire = wire
        self.connection = wire.connection
        self._loop = asyncio.get_running_loop()
        self.writer = ResponseWriter(wire, self._answer_left, self._write_failed)
        self._line = AnswerLine(owner.lines, self._answer_came, lambda: self._closing)
        self._is_gated = False  # each frame has to pass
        self._max_frame_bytes = owner.max_frame_bytes
        self._received = Received(owner.buffers)
        self.get_buffer = self._received.space  # type: ignore[method-assign] # a call less
        self._busy = False  # a request is in work or its answer has not left
        self._in_work = False  # the handler of a request has not answered yet
        self._viewed = False  # the request in work is a view of the buffer
        self._running = False
        self._share: object = None  # of the memory that the answer on its way takes
        self._closing = False
        self._eof = False
        self._opened = False
        self._paused = False
        self._muted = 0  # how many delays keep it busy and not reading
        self._delays: list[asyncio.TimerHandle] = []  # all of them since it was muted
        self._waiting_for_room = False  # a whole request is kept until the queue takes it
        self.bytes_in = 0
        self.requests = 0

    # What the sweep looks at.

    @property
    def is_busy(self) -> bool:
        """True while a request is in work or an answer has not left."""
        return bool(self._line.answers) or (
            self._busy and (self._in_work or not self._muted or self.writer.is_blocked)
        )

    @property
    def is_closed(self) -> bool:
        return self._closing

    @property
    def was_opened(self) -> bool:
        return self._opened

    @property
    def is_stranger(self) -> bool:
        """True as long as nobody has logged in, on listeners that ask for it."""
        return False

    @property
    def holds_buffer(self) -> bool:
        """True while a receive buffer is taken."""
        return self._received.buffer is not None

    @property
    def awaits_rest_of_frame(self) -> bool:
        """True when the client began a frame and it is the client's turn to send more."""
        received, is_busy = self._received, self._busy or self._line.answers
        return received.end > received.start and not is_busy and not self._paused

    @property
    def is_wanted(self) -> bool:
        """True while others wait for the memory that a frame or an answer takes here."""
        is_answer_wanted = isinstance(self._share, Share) and self._share.is_wanted
        return is_answer_wanted or self._received.is_wanted

    def reclaim(self) -> None:
        """Give back a buffer that was taken for bytes that did not come."""
        if not self._busy and self._received.end == 0:
            self._received.settle(self._memory_granted)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire.made(transport)
        self._opened = True
        self._owner.channel_opened(self)

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        if self._closing:
            return
        self._received.end += nbytes
        if self._busy:
            self._settle()
        else:
            self._run()

    def wants_more(self, nbytes: int) -> bool:
        received = self._received
        start, end, buffer = received.start, received.end + nbytes, received.buffer
        if end - start < _SIZE_BYTES or buffer is None:
            return True
        return end - start < _SIZE_BYTES + int(_unpack_size(buffer, start)[0])

    def eof_received(self) -> bool:
        """The client sends no more. Requests it has sent are still answered."""
        self._eof = True
        self.reclaim()  # thousands of idle clients may leave in one turn of the loop
        self._loop.call_soon(self._run)
        return True  # `_run` closes when nothing is left to answer

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """The connection is gone; the buffer too, unless a request being handled still views it."""
        self._closing = True
        self._share = None
        for delay in self._delays:  # of days, perhaps, and each keeps all of this
            delay.cancel()
        self._delays.clear()
        self.connection.close()
        self._line.give_up()
        self.writer.close()
        self._received.drop(is_viewed=self._busy and self._viewed)
        self._owner.channel_closed(self)

    # What the request handler pool calls.

    def complete(self, result: Response | NoResponse) -> None:
        """Send the answer of the request in work; then the next request may start."""
        if self._closing:
            return
        if self._line.answers:
            self._line.join(result)
            if isinstance(result, Response) or not result.close:
                self._go_on()
            return  # at the end of a connection nothing more begins
        self._in_work = self._viewed = False
        if not self._send(result):
            return  # still busy; `_answer_left` goes on
        self._busy = self._muted > 0
        if not self._running:
            self._run()

    def accept(self, outcome: FutureLike) -> AnswerToCome:
        """The request in work is carried out, but not answered: the next one may start."""
        answer = self._line.join(outcome=outcome)
        self._go_on()
        return answer

    def _go_on(self) -> None:
        """The request is no longer in work; its answer stands in line."""
        self._in_work = self._viewed = False
        self._busy = self._muted > 0 or self.writer.is_blocked
        if not self._running:
            self._run()

    def _send(self, result: Response | NoResponse) -> bool:
        """True when the next answer may follow."""
        if result.throttle_ms:
            self.mute(result.throttle_ms)
        if isinstance(result, Response):
            try:
                if self.writer.write(result.pieces):
                    return True
                self._share = result.share or self._share_of_answer()
                return False
            except OSError as error:
                self._write_failed(error)
                return False
        if result.close:
            self.close()
        return not result.close

    def _share_of_answer(self) -> Share:
        share = self._owner.room.share()
        share.hold(self.writer.pending_bytes)
        return share

    def mute(self, duration_ms: int) -> None:
        """Read nothing and start no request for this long; answers leave meanwhile (KIP-219)."""
        self._read(wanted=False)
        self._muted += 1
        self._delays.append(self._loop.call_later(duration_ms / 1000, self._unmute))

    def fail(self, error: ProtocolError) -> None:
        """Close the connection because of what it sent, once all earlier requests are answered."""
        if self._line.answers and not self._closing:
            self._line.join(error)
            self._busy = self._in_work = True
        elif not self._closing:
            self._fail(error)

    def _fail(self, error: ProtocolError) -> None:
        """Close the connection, and log why."""
        if isinstance(error, UnservedError):
            self._owner.unserved.name(self.connection, error.client_id, error.what)
        else:
            self._owner.tell_protocol_error(self.connection, error)
        self._owner.protocol_errors.value += 1
        self.close()

    def close_when_answered(self) -> None:
        """Close as soon as no request is in work."""
        if self.is_busy:
            self._read(wanted=False)
            self._eof = True
        else:
            self.close()

    def close(self) -> None:
        """Close the connection; what has not been sent is lost."""
        if self._closing:
            return
        self._closing = True
        self._line.give_up()
        with suppress(OSError):
            self.writer.release()
        self.writer.close()
        self._wire.close()

    # Requests.

    def _run(self) -> None:
        """Send the answers that have come; begin requests while there are whole frames."""
        if self._running or self._closing:
            return
        received = self._received
        self._running = self.writer.is_holding = True
        left = _REQUESTS_PER_TURN
        goes_on = False
        try:
            if self._line.answers:
                self._send_from_line()
            while received.start < received.end and not (self._busy or self._closing):
                if not left:
                    goes_on = True
                    self._loop.call_soon(self._run)
                    break
                left -= 1
                if not self._begin_next():
                    break
        except ProtocolError as error:
            self.fail(error)
        finally:
            self._running = False
        if not self._closing:
            self._end_turn(goes_on)

    def _end_turn(self, goes_on: bool) -> None:
        """Let this turn's answers leave; the next request waits until the client has taken them."""
        try:
            if not self.writer.release():
                self._busy = True
                self._share = self._share or self._share_of_answer()
        except OSError as error:
            self._write_failed(error)
        if self._eof and not (
            goes_on or self._busy or self._waiting_for_room or self._line.answers
        ):
            self.close()  # else `_answer_left` comes back here
        else:
            self._settle()

    def _send_from_line(self) -> None:
        line = self._line
        while not self.writer.is_blocked and (result := line.take()) is not None:
            if isinstance(result, ProtocolError):
                self._fail(result)
                return
            if not self._send(result):
                self._busy = True
                return
            self._busy = self._busy or self._muted > 0

    def _answer_came(self) -> None:
        """More may come in the same turn of the loop; they leave together."""
        self._loop.call_soon(self._run)

    def _begin_next(self) -> bool:
        """Have the next whole frame handled, in the short way if it is like an earlier one; False
        if there is none, or it has to wait.
        """
        received, owner, line = self._received, self._owner, self._line
        buffer, at, queue = received.buffer, received.start, owner.request_channel
        assert buffer is not None
        if received.end - at < _SIZE_BYTES:
            return False
        (size,) = _unpack_size(buffer, at)
        start = at + _SIZE_BYTES
        end = start + size
        if end > received.end or not 0 <= size <= self._max_frame_bytes:
            check_frame_size(buffer, at, size, self._max_frame_bytes)
            return False
        if self._is_gated and not self._passes(buffer, start, end):
            return received.start > at
        if (queue.is_full or line.answers) and not self._may_begin(buffer, start):
            return False
        self.requests += 1
        received.start = end
        if size >= received.hint:
            received.hint = min(size + _SIZE_BYTES, LARGEST_KEPT_BYTES)
        short_way = self.connection.short_way
        if short_way is None or queue.settle is None or isinstance(buffer, memoryview):
            self._hand_on(buffer, start, end)
            return True
        result = short_way.answer(buffer, start, end)
        if result is None:
            self._hand_on(buffer, start, end)
            return True
        queue.requests.value += 1
        if isinstance(result, bytes) and not line.answers:
            self.writer.held.append(result)
        else:
            self._conclude(result, queue.settle, short_way.is_viewed)
        return True

    def _conclude(self, result: bytes | Any, settle: Settle, is_viewed: bool) -> None:
        """Send what the short way has answered, or see that it is answered."""
        line = self._line
        if isinstance(result, bytes):
            line.join(Response([result[_SIZE_BYTES:]]) if result else NoResponse())
        elif isinstance(result, Response) and not line.answers:
            self._busy = not self._send(result) or self._muted > 0
        else:
            self._busy = self._in_work = True
            self._viewed = is_viewed
            settle(self, result)

    def _passes(self, buffer: Buffer, start: int, end: int) -> bool:  # noqa: ARG002  for those with a gate
        """Whether a frame may go further."""
        return True

    def _may_begin(self, buffer: Buffer, start: int) -> bool:
        """Whether there is room for one more request in work, and it may begin before the answers
        in line.
        """
        queue = self._owner.request_channel
        if queue.is_full:
            if not self._waiting_for_room:
                self._waiting_for_room = True
                queue.wait_for_room(self._room_made)
            return False
        return self._line.admits(buffer[start : start + 2])

    def _hand_on(self, buffer: Buffer, start: int, end: int) -> None:
        """Send a frame to the request handler pool."""
        # A small frame is copied, so that the buffer need not stay while the request waits.
        self._viewed = end - start > _COPIED_BYTES_MAX
        view = memoryview(buffer)[start:end] if self._viewed else memoryview(buffer[start:end])
        header, body_offset = decode_request_header(view)
        self._busy = self._in_work = True
        request = new_tuple(Request, (header, view, body_offset, self.connection, end - start))
        self._owner.request_channel.send(self, request)

    def _room_made(self) -> None:
        self._waiting_for_room = False
        self._run()

    def _answer_left(self) -> None:
        self._share = None
        if not self._in_work and not self._muted:
            self._busy = False
        if self._line.answers or not self._busy:
            self._run()

    def _unmute(self) -> None:
        self._muted -= 1
        if not self._muted:
            self._delays.clear()
        if not self._muted and not self._closing and not self.writer.is_blocked:
            self._answer_left()

    def _write_failed(self, error: OSError) -> None:
        _log.debug("connection %s: answer not sent: %s", self.connection.connection_id, error)
        self.close()

    # Reading.

    def _settle(self) -> None:
        """After received bytes or a finished request: make room, unless a stranger sent ahead."""
        received = self._received
        if not (self._busy and (self._viewed or (self._is_gated and self.is_stranger))):
            received.settle(self._memory_granted)
        buffer = received.buffer
        if self._paused == (buffer is None or received.end < len(buffer)):
            self._read(self._paused)

    def _memory_granted(self) -> None:
        self._loop.call_soon(self._grow)

    def _grow(self) -> None:
        if not self._closing:
            self._settle()

    def _read(self, wanted: bool) -> None:
        """Switch reading on or off. A full buffer must not be offered to the loop."""
        if wanted == self._paused and not self._muted and not self._eof and not self._closing:
            self._paused = not wanted
            if wanted:
                self._wire.resume_reading()
            else:
                self._wire.pause_reading()
