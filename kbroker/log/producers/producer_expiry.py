"""Lets logs forget the idempotent producers that have written nothing for long.

Law: a few logs at a time, as the event loop owns them; a broker may have thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from kbroker.log.log import Log
from kbroker.log.write_runner import InTurn, Prepared, give_way

_LOGS_AT_ONCE = 50


class ProducerExpiry:
    """Looks at logs, and lets them forget who is idle."""

    def __init__(self, upkeep: InTurn, expiration_ms: Callable[[], int]) -> None:
        """`expiration_ms` gives `producer.id.expiration.ms` as it is now."""
        self._upkeep = upkeep
        self._expiration_ms = expiration_ms
        self._waiting = 0  # steps of the last look

    def look(self, logs: Iterable[Log], now_ms: int) -> None:
        """Begin, unless the last look is still going on."""
        if self._waiting:
            return
        remaining = list(logs)
        starts = range(0, len(remaining), _LOGS_AT_ONCE)
        self._waiting = len(starts)
        for start in starts:
            some = remaining[start : start + _LOGS_AT_ONCE]
            self._upkeep.add(partial(self._look_at, some, now_ms))

    def _look_at(self, logs: list[Log], now_ms: int) -> Prepared:
        self._waiting -= 1
        expiration_ms = self._expiration_ms()
        for log in logs:
            log.producer_state.remove_expired(now_ms, expiration_ms)
        return give_way()
