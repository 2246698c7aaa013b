"""RequestQueue: requests that wait to be sent to one broker. Many of them are merged, in small
steps.

Law: requests leave in the order in which they came, merged ones in the place of the last of them.
While requests are being merged none of them leaves; those that come meanwhile wait behind.
"""

from __future__ import annotations

import asyncio
from collections import deque

from kbroker.controller.state_machines.request_merge import RequestMerge
from kbroker.replication.controller_requests.request_shapes import ControlRequest
from kbroker.turns import turn

MERGE_ABOVE = 100  # waiting requests


class RequestQueue:
    """The requests for one broker. Owned by the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[ControlRequest] = deque()
        self._is_merged = True  # nothing has come since
        self._merging: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: ControlRequest) -> None:
        """Let a request wait behind all others."""
        self._waiting.append(request)
        self._is_merged = False
        if len(self._waiting) > MERGE_ABOVE and self._merging is None:
            self._begin_to_merge()

    def put_back(self, request: ControlRequest) -> None:
        """Let a request wait before all others: it was taken and did not get through."""
        self._waiting = deque((request, *self._waiting))

    async def take(self) -> ControlRequest | None:
        """Take the first request out; None if there is none."""
        await self._merged()
        return self._waiting.popleft() if self._waiting else None

    async def merge(self) -> None:
        """Return when all requests that wait now are merged."""
        await self._merged()
        if not self._is_merged and len(self._waiting) > 1:
            self._begin_to_merge()
            await self._merged()

    def clear(self) -> None:
        """Drop all waiting requests."""
        self._waiting = deque()
        self._is_merged = True

    def stop(self) -> None:
        """Merge no more, and forget the merge under way."""
        if self._merging is not None:
            self._merging.cancel()

    def _begin_to_merge(self) -> None:
        self._merging = asyncio.create_task(self._merge(), name="merger of controller requests")

    async def _merged(self) -> None:
        if self._merging is not None:
            await asyncio.wait([self._merging])

    async def _merge(self) -> None:
        waiting, requests = self._waiting, list(self._waiting)
        merge = RequestMerge(requests)
        try:
            for _ in merge.steps():
                await turn()
                if self._waiting is not waiting:  # cleared, or one was put back
                    return
            late = list(waiting)[len(requests) :]
            self._waiting = deque((*merge.merged, *late))
            self._is_merged = not late
        finally:
            self._merging = None
