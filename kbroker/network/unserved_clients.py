"""Names the clients that ask for what this broker does not serve, in the log.

Law: a client is named once for each thing it asks for, so that one that tries again and again does
not fill the log; what it repeats is counted at DEBUG. A client is its address without the port, its
software and its id. Who was named is forgotten beyond a bound, those first who have not asked for
longest.

Owned by the event loop.
"""

from __future__ import annotations

import logging

from kbroker.protocol.request import ConnectionInfo
from kbroker.unserved import Unserved

_log = logging.getLogger(__name__)

NAMED_MAX = 1_000
_SHOWN_CHARACTERS = 100  # of a client id; it is anything that a client sends


class UnservedClients:
    """Who asked for what."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[tuple[str, Unserved], int] = {}  # who asked last stands last

    def name(self, connection: ConnectionInfo, client_id: str | None, what: Unserved) -> None:
        """Log that a client asks for `what`, as a warning the first time."""
        client = _shown(connection, client_id)
        times = self._times.pop((client, what), 0) + 1
        self._times[client, what] = times
        if len(self._times) > NAMED_MAX:
            del self._times[next(iter(self._times))]
        if times > 1:
            _log.debug("%s asked for %s %d times", client, what.what, times)
            return
        _log.warning(
            "%s asks for %s, which this broker does not serve: %s", client, what.what, what.advice
        )


def _shown(connection: ConnectionInfo, client_id: str | None) -> str:
    name = f"client {client_id[:_SHOWN_CHARACTERS]!r}" if client_id else "a client"
    software = connection.client_software_name
    if software == "unknown":
        return f"{name} at {connection.peer_host}"
    shown = f"{software} {connection.client_software_version}"[:_SHOWN_CHARACTERS]
    return f"{name} at {connection.peer_host} ({shown})"
