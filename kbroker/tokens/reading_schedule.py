"""ReadingSchedule: when the keys of an issuer are read again. Pure.

Law: whoever logs in with tokens of keys that nobody has heard of has them read once a minute at
most, and a key server that fails is asked less and less often.
"""

from __future__ import annotations

ASKED_AGAIN_MS = 60_000  # for keys that are not known, as in Kafka


class ReadingSchedule:
    """Milliseconds by a clock that nobody sets; the first reading is due at once."""

    def __init__(
        self, refresh_ms: int, backoff_ms: int, backoff_max_ms: int, now_ms: float
    ) -> None:
        """`refresh_ms` after a reading comes the next; after a failure `backoff_ms`, which doubles
        up to `backoff_max_ms`.
        """
        self.due_ms = now_ms
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._failures = 0
        self._asked_ms: float | None = None

    def succeeded(self, now_ms: float) -> None:
        """Note that the keys have been read, by a server that answers again."""
        self._failures = 0
        self.due_ms = now_ms + self._refresh_ms

    def failed(self, now_ms: float) -> None:
        """Note that the keys could not be read."""
        doubled_ms = self._backoff_ms << min(self._failures, 30)
        self._failures += 1
        self.due_ms = now_ms + min(doubled_ms, self._backoff_max_ms)

    def asked(self, now_ms: float) -> bool:
        """A key is not known: returns whether the next reading is due now because of that."""
        if self._asked_ms is not None and now_ms - self._asked_ms < ASKED_AGAIN_MS:
            return False
        self._asked_ms = now_ms
        self.due_ms = min(self.due_ms, now_ms)
        return True
