"""What a sweep sees of a connection, set by hand."""

from __future__ import annotations

from kbroker.protocol.request import ConnectionInfo
from tests.fakes.requests.recording_replier import local_connection


class ScriptedWriter:
    """The sending half: a counter and whether the peer takes it."""

    def __init__(self) -> None:
        self.bytes_out = 0
        self.is_blocked = False


class ScriptedChannel:
    """The attributes of a Channel that a Processor looks at."""

    def __init__(self) -> None:
        self.writer = ScriptedWriter()
        self.connection: ConnectionInfo = local_connection()
        self.bytes_in = 0
        self.requests = 0
        self.is_busy = False
        self.awaits_rest_of_frame = False
        self.is_wanted = False
        self.is_stranger = False
        self.closed = False

    def reclaim(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Note that the sweep closed it."""
        self.closed = True
