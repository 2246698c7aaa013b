"""Holds a cleaner to log.cleaner.io.max.bytes.per.second, and stops it.

Law: no pause is longer than it takes to notice a stop, so that throttling never delays the end of
the broker.
"""

from __future__ import annotations

from collections.abc import Callable

_LONGEST_PAUSE_S = 0.1
_SHORTEST_PAUSE_S = 0.001  # less is owed, not waited for
_BURST_S = 0.3  # Kafka looks at the rate this often


class CleaningAborted(Exception):  # noqa: N818 - no error: somebody wants it to stop
    """Stop what is going on."""


class Pacer:
    """Called before every read and write with its bytes."""

    def __init__(
        self,
        bytes_per_s: float,
        now_s: Callable[[], float],
        pause: Callable[[float], None],
        is_stopped: Callable[[], bool],
    ) -> None:
        """`pause` waits so many seconds; `now_s` never goes back."""
        self._bytes_per_s = bytes_per_s
        self._now_s = now_s
        self._pause = pause
        self._is_stopped = is_stopped
        self._free_at_s = now_s()  # when all that was asked for so far is paid for

    def __call__(self, size_bytes: int) -> None:
        """Wait until `size_bytes` more may be read or written. Raises CleaningAborted."""
        if self._is_stopped():
            raise CleaningAborted
        now_s = self._now_s()
        self._free_at_s = max(self._free_at_s, now_s - _BURST_S) + size_bytes / self._bytes_per_s
        while (left_s := self._free_at_s - self._now_s()) > _SHORTEST_PAUSE_S:
            self._pause(min(left_s, _LONGEST_PAUSE_S))
            if self._is_stopped():
                raise CleaningAborted
