"""Owns the open connections of the server and looks after them from time to time.

One sweep timer for all connections: it closes those that are idle (`connections.max.idle.ms`), that
send a frame too slowly, or that do not take their answer. Nothing is noted on the hot path for it;
the sweep compares counters with those of the sweep before.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from kbroker.clock import Clock
from kbroker.counters import Counter
from kbroker.errors import ProtocolError
from kbroker.memory_room import REQUESTS_BYTES, MemoryRoom
from kbroker.network.answer_line import AnswerLines
from kbroker.network.authentications import Authentications
from kbroker.network.channel import Channel
from kbroker.network.connection_quotas import ConnectionQuotas
from kbroker.network.receive_buffers import ReceiveBuffers
from kbroker.network.request_channel import RequestChannel
from kbroker.network.strangers import Strangers
from kbroker.network.unserved_clients import UnservedClients
from kbroker.network.wire import LINGER_S
from kbroker.protocol.frame import FrameSizeError
from kbroker.protocol.request import ConnectionInfo
from kbroker.rare_lines import RareLines, note_of

_log = logging.getLogger(__name__)

SLOWEST_BYTES_PER_S = 1024  # a frame may come slowly, but not slower than this
FRAME_DEADLINE_MS = 30_000
ANSWER_DEADLINE_MS = 60_000
# The same while others wait for the memory that the frame or the answer takes.
SLOWEST_WANTED_BYTES_PER_S = 256 * 1024
WANTED_DEADLINE_MS = 10_000
_SWEEP_MS_MAX = 5_000
_KEPT_CHARACTERS = 200  # of a reason to close, which may quote the client


@dataclass(slots=True, eq=False, repr=False)
class _Seen:
    """A connection as the last sweeps saw it. Times are monotonic milliseconds."""

    bytes_in: int
    bytes_out: int
    active_ms: float
    requests: int = 0
    frame_since_ms: float | None = None
    frame_from_bytes: int = 0
    blocked_since_ms: float | None = None
    blocked_from_bytes: int = 0


class Processor:
    """The open connections: their shared means, their counters and the sweep."""

    def __init__(
        self,
        request_channel: RequestChannel,
        buffers: ReceiveBuffers,
        quotas: ConnectionQuotas,
        clock: Clock,
        limits: tuple[int, int],
        unserved: UnservedClients,
    ) -> None:
        """`limits` are socket.request.max.bytes and connections.max.idle.ms (negative: never)."""
        self.request_channel = request_channel
        self.buffers = buffers
        self.room = MemoryRoom(REQUESTS_BYTES)  # or the address of the broker that answers
        self.unserved = unserved
        self.lines = AnswerLines()
        self.max_frame_bytes, self._idle_ms = limits
        self.linger_s = LINGER_S
        self._quotas = quotas
        self._clock = clock
        self._channels: dict[Channel, _Seen] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed_bytes_in = self._closed_bytes_out = 0
        self.connections_opened = Counter()
        self.connections_closed = Counter()
        self.protocol_errors = Counter()  # connections closed for what they sent
        self.idle_closed = Counter()
        self.slow_closed = Counter()
        self.logins = Counter()
        self.failed_logins = Counter()
        self._authentications: dict[str, Authentications] = {}
        self._told = RareLines()
        self.strangers = Strangers(self._close_stranger)
        self._emptied: asyncio.Event | None = None

    @property
    def connections(self) -> int:
        return len(self._channels)

    @property
    def channels(self) -> Iterable[Channel]:
        return self._channels.keys()

    @property
    def bytes_in(self) -> int:
        return self._closed_bytes_in + sum(channel.bytes_in for channel in self._channels)

    @property
    def bytes_out(self) -> int:
        return self._closed_bytes_out + sum(channel.writer.bytes_out for channel in self._channels)

    def idle_ms(self, channel: Channel) -> float | None:
        """Return for how long nothing has moved on a connection, as far as the sweeps know: 0 if it
        was for less than one of their intervals. None if it is closed.
        """
        seen = self._channels.get(channel)
        if seen is None:
            return None
        if _is_active(channel, seen):
            return 0.0
        return max(0.0, self._clock.monotonic_ms() - seen.active_ms)

    def start(self) -> None:
        """Begin to sweep from time to time."""
        interval_ms = (
            _SWEEP_MS_MAX if self._idle_ms < 0 else min(_SWEEP_MS_MAX, max(self._idle_ms / 4, 50))
        )
        loop = asyncio.get_running_loop()

        def tick() -> None:
            self.sweep(self._clock.monotonic_ms())
            self._timer = loop.call_later(interval_ms / 1000, tick)

        self._timer = loop.call_later(interval_ms / 1000, tick)

    async def shutdown(self, deadline_ms: float) -> None:
        """Close idle connections at once, the others when answered or after `deadline_ms`."""
        if self._timer is not None:
            self._timer.cancel()
        for channel in list(self._channels):
            channel.close_when_answered()
        await self._wait_until_empty(deadline_ms)
        for channel in list(self._channels):
            channel.close()
        await self._wait_until_empty(1_000)

    def channel_opened(self, channel: Channel) -> None:
        """Count a new connection."""
        self.connections_opened.value += 1
        self._channels[channel] = _Seen(0, 0, self._clock.monotonic_ms())
        if channel.is_stranger:
            self.strangers.came(channel)
        elif self.strangers.left(channel):  # whose handshake is done
            self.authentications_at(channel.connection.listener_name).let_in(is_again=False)

    def channel_closed(self, channel: Channel) -> None:
        """Take a connection off the books."""
        if self._channels.pop(channel, None) is None:
            return
        self.connections_closed.value += 1
        self.strangers.left(channel)
        self._closed_bytes_in += channel.bytes_in
        self._closed_bytes_out += channel.writer.bytes_out
        connection = channel.connection
        self._quotas.decrement(connection.peer_host, connection.listener_name)
        if not self._channels and self._emptied is not None:
            self._emptied.set()

    def logged_in(self, channel: Channel) -> None:
        """Note that the user of a connection is known."""
        self.logins.value += 1
        is_again = not self.strangers.left(channel)
        self.authentications_at(channel.connection.listener_name).let_in(is_again=is_again)

    def login_failed(self, channel: Channel, reason: str) -> float:
        """Count and log a failed login. Returns for how many milliseconds its answer waits."""
        self.failed_logins.value += 1
        connection = channel.connection
        counts = self.authentications_at(connection.listener_name)
        counts.refused(is_again=not channel.is_stranger)
        self._tell(connection, f"{reason} (listener {connection.listener_name})")
        return self.strangers.failed(connection.peer_host, self._clock.monotonic_ms())

    def handshake_failed(self, connection: ConnectionInfo, error: ProtocolError) -> None:
        """Count and log a handshake that failed."""
        self.protocol_errors.value += 1
        self.authentications_at(connection.listener_name).refused(is_again=False)
        self.tell_protocol_error(connection, error)

    def authentications_at(self, listener: str) -> Authentications:
        """The counts of a listener, made when they are asked for the first time."""
        counts = self._authentications.get(listener)
        if counts is None:
            counts = self._authentications[listener] = Authentications()
        return counts

    def http_login_failed(self, host: str, reason: str) -> float:
        """Count and log a failed login at the HTTP address, which counts with the others. Returns
        for how many milliseconds its answer waits.
        """
        self.failed_logins.value += 1
        now_ms = self._clock.monotonic_ms()
        left_out = self._told.left_out(host, reason, now_ms)
        if left_out is not None:
            _log.warning(
                "a login from %s over HTTP is refused: %s%s", host, reason, note_of(left_out)
            )
        return self.strangers.failed(host, now_ms)

    def _close_stranger(self, channel: Channel, reason: str) -> None:
        self._tell(channel.connection, reason)
        channel.close()

    def tell_protocol_error(self, connection: ConnectionInfo, error: ProtocolError) -> None:
        """Log that a connection is closed because of what it sent: once a minute per address."""
        self._tell(connection, self._with_setting(error))

    def _with_setting(self, error: ProtocolError) -> str:
        """The error as text, with the setting that decided."""
        if not isinstance(error, FrameSizeError):
            return str(error)
        if error.max_bytes < self.max_frame_bytes:
            return f"frame of {error.size} bytes before a login, limit {error.max_bytes}"
        return f"frame of {error.size} bytes (socket.request.max.bytes={error.max_bytes})"

    def _tell(self, connection: ConnectionInfo, text: str) -> None:
        now_ms = self._clock.monotonic_ms()
        left_out = self._told.left_out(connection.peer_host, text[:_KEPT_CHARACTERS], now_ms)
        if left_out is not None:
            _log.warning(
                "closed connection %s: %s%s", connection.connection_id, text, note_of(left_out)
            )

    def sweep(self, now_ms: float) -> None:
        """Close what is idle or too slow; called every few seconds, and by tests."""
        for channel, seen in list(self._channels.items()):
            reason = self._reason_to_close(channel, seen, now_ms)
            if reason is None:
                channel.reclaim()
                continue
            _log.info("closed connection %s: %s", channel.connection.connection_id, reason)
            channel.close()
        self.buffers.trim()

    def _reason_to_close(self, channel: Channel, seen: _Seen, now_ms: float) -> str | None:
        bytes_in, bytes_out = channel.bytes_in, channel.writer.bytes_out
        active = _is_active(channel, seen)
        if channel.writer.is_blocked:
            if seen.blocked_since_ms is None:
                seen.blocked_since_ms, seen.blocked_from_bytes = now_ms, bytes_out
            elif _too_slow(
                bytes_out - seen.blocked_from_bytes,
                now_ms - seen.blocked_since_ms,
                ANSWER_DEADLINE_MS,
                channel.is_wanted,
            ):
                self.slow_closed.value += 1
                return "the client does not read its answer"
        else:
            seen.blocked_since_ms = None
        if not channel.awaits_rest_of_frame or channel.requests != seen.requests:
            seen.frame_since_ms, seen.requests = None, channel.requests
        elif seen.frame_since_ms is None:
            seen.frame_since_ms, seen.frame_from_bytes = now_ms, bytes_in
        elif _too_slow(
            bytes_in - seen.frame_from_bytes,
            now_ms - seen.frame_since_ms,
            FRAME_DEADLINE_MS,
            channel.is_wanted,
        ):
            self.slow_closed.value += 1
            if channel.is_wanted:
                return "a request arrived slower than 256 KiB/s, and others waited for its memory"
            return "a request arrived slower than 1 KiB/s"
        if active:
            seen.bytes_in, seen.bytes_out, seen.active_ms = bytes_in, bytes_out, now_ms
        elif 0 <= self._idle_ms <= now_ms - seen.active_ms:
            self.idle_closed.value += 1
            return "idle for connections.max.idle.ms"
        return None

    async def _wait_until_empty(self, deadline_ms: float) -> None:
        if not self._channels:
            return
        self._emptied = asyncio.Event()
        try:
            await asyncio.wait_for(self._emptied.wait(), deadline_ms / 1000)
        except TimeoutError:
            _log.info("%d connections were still open at the deadline", len(self._channels))


def _is_active(channel: Channel, seen: _Seen) -> bool:
    """Whether something has moved since the connection was seen, or is about to."""
    moved = channel.bytes_in != seen.bytes_in or channel.writer.bytes_out != seen.bytes_out
    return moved or channel.is_busy


def _too_slow(moved_bytes: int, age_ms: float, deadline_ms: int, is_wanted: bool) -> bool:
    """True if the deadline passed with fewer bytes a second than the lowest average allowed."""
    slowest = SLOWEST_BYTES_PER_S
    if is_wanted:
        slowest, deadline_ms = SLOWEST_WANTED_BYTES_PER_S, WANTED_DEADLINE_MS
    return age_ms >= deadline_ms and moved_bytes * 1000 < slowest * age_ms
