"""Quotas of clients: how long a connection pauses because of what it asked for (KIP-13, KIP-219).

The answer leaves at once and says for how long its connection is muted; the broker holds to it.
What is counted, and against which limits, is known to an implementation of `Quotas` alone. What a
registration calls exempt is not counted, as with Kafka: a follower's Fetch.

One difference from Kafka: a throttled Fetch carries its records here, and they are counted. Kafka
answers it empty, counts no records, and leaves its session as it was; to do so, Fetch has to ask
before the session knows the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The bytes and the time that one answered request has used."""

    principal: str
    client_id: str | None
    api_key: int
    request_bytes: int
    response_bytes: int
    now_ms: float  # monotonic


class Quotas(Protocol):
    """Counts what clients use."""

    def throttle_ms(self, usage: Usage) -> int:
        """Count a request that has been answered; milliseconds to pause after it, 0 for none."""
        ...
