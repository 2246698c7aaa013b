"""CreationRate: how many connections may come in a second (KIP-612).

Pure. As many as that may come at once, and then one after the other. Those beyond wait in the
backlog of the listening socket, as in Kafka.
"""

from __future__ import annotations

BLOCKED_S = 1.0  # if none may come: until somebody asks again


class CreationRate:
    """The connections that may come now, and those that came. Times are monotonic seconds."""

    __slots__ = ("_at_s", "_left", "per_s")

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        self._left = float(per_s)
        self._at_s: float | None = None

    def wait_s(self, now_s: float) -> float:
        """For how long the next connection has to wait; 0 if it may come now.

        >>> rate = CreationRate(2)
        >>> [rate.count(now_s) for now_s in (10.0, 10.0)] and rate.wait_s(10.0), rate.wait_s(10.5)
        (0.5, 0.0)
        """
        if not self.per_s:
            return BLOCKED_S
        since_s = 0.0 if self._at_s is None else now_s - self._at_s
        self._left = min(self.per_s, self._left + since_s * self.per_s)
        self._at_s = now_s
        return max(0.0, (1 - self._left) / self.per_s)

    def count(self, now_s: float) -> None:
        """Count a connection that came."""
        self.wait_s(now_s)
        self._left -= 1
