"""LoginChannel: a connection of a listener with logins.

Law: no frame goes further before the login is done, and none after it has failed. A client that is
refused has the time to read why.

Owned by the event loop.
"""

from __future__ import annotations

from kbroker.network.channel import Channel
from kbroker.network.channel_owner import ChannelOwner
from kbroker.network.connection_login import ConnectionLogin, ListenerLogins
from kbroker.network.receive_buffers import Buffer
from kbroker.network.wire import Wire
from kbroker.protocol.request import Response


class LoginChannel(Channel):
    """The broker's end of a connection whose client has to log in."""

    __slots__ = ("_is_refused", "_login")

    def __init__(self, owner: ChannelOwner, wire: Wire, logins: ListenerLogins) -> None:
        super().__init__(owner, wire)
        login = ConnectionLogin(logins, wire.connection)
        self._login: ConnectionLogin | None = login  # as long as frames are asked about
        self._is_gated = True
        self._is_refused = False  # its last answer is on the way
        self._max_frame_bytes = login.max_frame_bytes

    @property
    def is_stranger(self) -> bool:
        """True until the login is done."""
        return self._login is not None and not self._login.is_done

    def eof_received(self) -> bool:
        """The client sends no more; one that is refused has read why."""
        if self._is_refused:
            self.close()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody waits for an answer to the login any more."""
        super().connection_lost(exc)
        if self._login is not None:
            self._login.leave()

    def _passes(self, buffer: Buffer, start: int, end: int) -> bool:
        """Whether a frame may go further. It does not if it is one of the login, which takes it
        then, or has to wait for the answers in line.
        """
        login = self._login
        if login is None:
            return True
        if self._line.answers and not self._line.admits(buffer[start : start + 2]):
            return False
        was_busy = self._busy, self._in_work
        self._busy = self._in_work = True
        if not login.takes(memoryview(buffer)[start:end], self):
            self._busy, self._in_work = was_busy
            return True
        self.requests += 1
        self._received.start = end
        return False

    # What its login calls.

    def let_in(self) -> None:
        """Frames pass from now on: all, or those of a session."""
        login = self._login
        if self._closing or login is None:
            return
        self._max_frame_bytes = self._owner.max_frame_bytes
        self._owner.logged_in(self)
        if not login.is_in_the_way:
            self._is_gated = False
            self._login = None

    def refuse(self, reason: str, answer: bytes | None) -> None:
        """Close the connection after a while, and after the answer."""
        if not self._closing:
            delay_ms = self._owner.login_failed(self, reason)
            self._loop.call_later(delay_ms / 1000, self._end_with, answer)

    def _end_with(self, answer: bytes | None) -> None:
        if self._closing:
            return
        if answer is None:
            self.close()
            return
        # Some clients look at the end of a connection first, and only then at what came before.
        self._is_refused = True
        self._loop.call_later(self._owner.linger_s, self.close)
        self._send(Response([answer]))
