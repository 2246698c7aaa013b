"""One open connection, as a person sees it who asks a broker who is connected.

Pure. Law: names that clients chose are cut, so that a list of connections is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbroker.tracing.trace_entry import Asker


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenConnection:
    """A connection with what has gone over it; it has been idle for `idle_ms`, 0 if for less than
    some seconds. `apis`: the versions of the requests that it repeats, by name.
    """

    asker: Asker
    apis: Mapping[str, int]
    requests: int
    bytes_in: int
    bytes_out: int
    idle_ms: int

    @property
    def text(self) -> str:
        """The words by which a connection is found, in one line."""
        asker = self.asker
        words = (asker.address, asker.client_id, asker.software, asker.principal, asker.listener)
        return " ".join(filter(None, words))

    def value(self) -> Mapping[str, Any]:
        """Return the connection as JSON has it; a client that gave no id has null."""
        asker = self.asker
        return {
            "client_id": asker.client_id,
            "address": asker.address,
            "software": asker.software,
            "principal": asker.principal,
            "listener": asker.listener,
            "apis": dict(self.apis),
            "requests": self.requests,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "idle_ms": self.idle_ms,
        }
