"""The things that all channels of a server share."""

from __future__ import annotations

from typing import Any, Protocol

from kbroker.counters import Counter
from kbroker.errors import ProtocolError
from kbroker.memory_room import MemoryRoom
from kbroker.network.answer_line import AnswerLines
from kbroker.network.receive_buffers import ReceiveBuffers
from kbroker.network.request_channel import RequestChannel
from kbroker.network.unserved_clients import UnservedClients
from kbroker.protocol.request import ConnectionInfo


class ChannelOwner(Protocol):
    """A channel's view of the Processor that it belongs to."""

    request_channel: RequestChannel
    buffers: ReceiveBuffers
    room: MemoryRoom  # of requests and answers
    max_frame_bytes: int
    linger_s: float  # between the answer to a failed login and the end
    unserved: UnservedClients
    lines: AnswerLines
    protocol_errors: Counter

    def channel_opened(self, channel: Any) -> None:
        """The channel may now receive."""

    def channel_closed(self, channel: Any) -> None:
        """The channel's connection is gone."""

    def tell_protocol_error(self, connection: ConnectionInfo, error: ProtocolError) -> None:
        """A channel is being closed because of what it received."""

    def logged_in(self, channel: Any) -> None:
        """The channel's user is known."""

    def login_failed(self, channel: Any, reason: str) -> float:
        """Log that a login failed. Returns for how many milliseconds its answer waits."""
        ...
