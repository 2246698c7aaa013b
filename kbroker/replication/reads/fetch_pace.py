"""How many requests to produce a leader sends to a follower at once, if producers send several
before they hear of the first.

Pure. Law: an answer waits for more only if lately one had more, and no longer than `HOLD_MS`. Where
each request waits for the one before, all answers have one, and none ever waits. A wait in which
nothing came is followed by answers that do not wait: by more of them each time, until a wait pays.
"""

from __future__ import annotations

HOLD_MS = 1
LARGE_BYTES = 256 * 1024  # are sent at once
_MOST_WANTED = 64  # requests of one answer
_LONGEST_REST = 64  # answers


class FetchPace:
    """The pace of one follower's fetches."""

    __slots__ = ("_rest", "_resting", "_wanted")

    def __init__(self) -> None:
        self._wanted = 1  # requests, as an answer had them lately
        self._rest = 0  # answers that did not wait after the last wait in vain
        self._resting = 0  # of them, those that are still to come

    def waits(self, requests: int, size_bytes: int) -> bool:
        """Whether an answer of so many requests should wait for more."""
        return requests < self._wanted and not self._resting and size_bytes < LARGE_BYTES

    def is_enough(self, requests: int) -> bool:
        """Whether an answer that waits has what it waits for."""
        return requests >= self._wanted

    def answered(self, requests: int, waited_from: int | None) -> None:
        """Note that an answer had so many requests; `waited_from` of them before it waited, None if
        it did not.
        """
        if waited_from is None:
            self._wanted = min(max(requests, self._wanted - 1), _MOST_WANTED)
            self._resting = max(0, self._resting - 1)
            return
        self._wanted = min(requests, _MOST_WANTED)
        if requests > waited_from:
            self._rest = 0
        else:
            self._resting = self._rest = min(max(1, 2 * self._rest), _LONGEST_REST)
