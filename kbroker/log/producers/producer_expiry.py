"""Lets logs forget the idempotent producers that have written nothing for long.

Law: a few logs at a time, and a few of the producers of each, as the event loop owns them; a broker
may have thousands of logs, and a log a hundred thousand producers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kbroker.log.log import Log
from kbroker.log.write_runner import InTurn

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
        self._upkeep.add_steps(self._steps(logs, now_ms))

    def _steps(self, logs: Iterable[Log], now_ms: int) -> Iterator[None]:
        try:
            for number, log in enumerate(logs, 1):
                expiry = log.producer_state.remove_expired_in_parts(now_ms, self._expiration_ms())
                next(expiry, None)
                for _ in expiry:
                    yield
                if number % _LOGS_AT_ONCE == 0:
                    yield
        finally:
            self._is_looking = False
