"""Lets logs forget the idempotent producers that have written nothing for long.

Law: a few logs at a time, as the event loop owns them; a broker may have thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
        self._is_looking = False

    def look(self, logs: Iterable[Log], now_ms: int) -> None:
        """Begin, unless the last look is still going on."""
        if self._is_looking:
            return
        self._is_looking = True
        self._upkeep.add_parts(list(logs), _LOGS_AT_ONCE, partial(self._look_at, now_ms))
        self._upkeep.add(self._looked)

    def _looked(self) -> None:
        self._is_looking = False

    def _look_at(self, now_ms: int, logs: Sequence[Log]) -> Prepared:
        expiration_ms = self._expiration_ms()
        for log in logs:
            log.producer_state.remove_expired(now_ms, expiration_ms)
        return give_way()
