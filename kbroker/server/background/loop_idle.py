"""The share of time that the event loop is idle.

Kafka measures how long its threads wait. Here one thread does their work: it is idle while it uses
no processor. A wait for a slow disk counts as idle too.
"""

from __future__ import annotations

import time

_SHORTEST_S = 1.0  # between two looks, for a share that means something


class LoopIdle:
    """The share of time that a thread is idle. Made on this thread, and asked there."""

    def __init__(self) -> None:
        self.began_s = self._seen_s = time.monotonic()  # as the loop's clock has it
        self._used_s = time.thread_time()
        self._share = 1.0

    def share(self) -> float:
        """From 0 to 1, since the look before, which was at least a second ago."""
        now_s, used_s = time.monotonic(), time.thread_time()
        passed_s = now_s - self._seen_s
        if passed_s >= _SHORTEST_S:
            busy = (used_s - self._used_s) / passed_s
            self._share = min(1.0, max(0.0, 1.0 - busy))
            self._seen_s, self._used_s = now_s, used_s
        return self._share
