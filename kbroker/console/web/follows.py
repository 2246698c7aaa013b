"""Requests that pages of the console follow, between two looks of a page.

Law: a broker makes entries only while somebody looks. A filter that nobody has looked at for
`KEPT_S` is followed no longer, and its entries are forgotten; so is the one that was looked at
longest ago, if there are more than `MOST`.

Owned by the loop of the web server.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kbroker.console.web.views import BrokerViews, Followed
from kbroker.http.trace_query import trace_filter_of
from kbroker.tracing.trace_entry import TraceEntry
from kbroker.tracing.trace_filter import TraceFilter

KEPT_S: Final = 15.0  # without JavaScript a page looks every 5 s
MOST: Final = 4  # of the 8 that a broker allows
SHOWN: Final = 100
_LOOK_S: Final = 0.1

_Key = tuple[tuple[str, ...], ...]


@dataclass(slots=True, kw_only=True)
class Follow:
    """A filter that is followed: its last entries, how many there were, and how many of those came
    too fast to be seen.
    """

    followed: Followed
    entries: deque[TraceEntry] = field(default_factory=lambda: deque(maxlen=SHOWN))
    seen: int = 0
    missed: int = 0
    looked_s: float = 0.0

    async def look(self) -> None:
        """Take what has come."""
        taken = await self.followed.take()
        self.entries.extend(taken.entries)
        self.seen += len(taken.entries) + taken.missed
        self.missed += taken.missed


class Follows:
    """All filters that are followed."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, Follow] = OrderedDict()
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many filters are followed."""
        return len(self._kept)

    async def look(self, views: BrokerViews, query: Mapping[str, Sequence[str]]) -> Follow:
        """Return what fits a filter (see `trace_filter_of`), from the first look on.

        Raises ClientError, ValueError.
        """
        key = tuple((name, *texts) for name, texts in query.items())
        async with self._turn:  # two tabs with one filter look at the same
            follow = self._kept.get(key)
            if follow is None:
                follow = Follow(followed=await views.follow(trace_filter_of(query)))
                self._kept[key] = follow
            self._kept.move_to_end(key)
            follow.looked_s = _now_s()
            self.forget_old()
            await follow.look()
            return follow

    def forget_old(self) -> None:
        """Follow no longer what nobody looks at, and look again when the next is due."""
        now_s = _now_s()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._kept:
            oldest = next(iter(self._kept))
            left_s = self._kept[oldest].looked_s + KEPT_S - now_s
            if left_s > 0 and len(self._kept) <= MOST:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(left_s, self.forget_old)
                break
            self._kept.pop(oldest).followed.close()

    def close(self) -> None:
        """Follow nothing any more."""
        for follow in self._kept.values():
            follow.followed.close()
        self._kept.clear()
        if self._timer is not None:
            self._timer.cancel()


async def follow_once(views: BrokerViews, wanted: TraceFilter, wait_s: float) -> Follow:
    """Return what fits a filter within some seconds, as soon as there is anything.

    Raises ClientError.
    """
    follow = Follow(followed=await views.follow(wanted))
    try:
        give_up_s = _now_s() + wait_s
        while True:
            await follow.look()
            if follow.seen or _now_s() >= give_up_s:
                return follow
            await asyncio.sleep(min(_LOOK_S, wait_s))
    finally:
        follow.followed.close()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
