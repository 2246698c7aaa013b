"""Samples of figures for charts, taken while somebody looks.

Law: what nobody has looked at for `KEPT_S` is sampled no more, and forgotten; so is what was looked
at longest ago, if there is more than `MOST`. Each subject has `POINTS` samples of a few numbers,
and taking them costs its cluster at most a twentieth of the time.

Owned by the loop of the web server.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kbroker.client.client_error import EndingError
from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.web.svg_chart import Point
from kbroker.errors import KafkaError

STEP_S: Final = 10.0
KEPT_S: Final = 900.0
POINTS: Final = 91
MOST: Final = 10
_SHARE = 20

Figures = Mapping[str, float | None]
Measure = Callable[[], Awaitable[Figures]]


@dataclass(slots=True, kw_only=True)
class Series:
    """The samples of one subject: when, and what was known then. `trouble`: why the last one knows
    nothing, in words.
    """

    measure: Measure
    samples: deque[tuple[int, Figures]] = field(default_factory=lambda: deque(maxlen=POINTS))
    trouble: str | None = None
    looked_s: float = 0.0
    task: asyncio.Task[None] | None = None

    def points(self, name: str) -> tuple[Point, ...]:
        """Return the values of one figure."""
        return tuple(Point(at_ms=at_ms, value=each.get(name)) for at_ms, each in self.samples)

    def add(self, figures: Figures) -> None:
        """Add a sample of now."""
        self.samples.append((unix_now_ms(), figures))


class Sampling:
    """All subjects that are sampled."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Series] = OrderedDict()

    def __len__(self) -> int:
        """Return how many subjects are sampled."""
        return len(self._kept)

    async def look(self, subject: str, measure: Measure) -> Series:
        """Return the samples of a subject, from the first look on.

        Raises what `measure` does if the subject was not sampled before.
        """
        series = self._kept.get(subject)
        if series is not None and series.task is not None and series.task.done():
            self._forget(subject)  # it ended by a bug, which asyncio logs
            series = None
        if series is None:
            first = await measure()
            series = self._kept.setdefault(subject, Series(measure=measure))
            if series.task is None:
                series.add(first)
                series.task = asyncio.ensure_future(self._go_on(subject, series))
        self._kept.move_to_end(subject)
        series.looked_s = asyncio.get_running_loop().time()
        while len(self._kept) > MOST:
            self._forget(next(iter(self._kept)))
        return series

    def close(self) -> None:
        """Sample nothing any more."""
        for subject in list(self._kept):
            self._forget(subject)

    def _forget(self, subject: str) -> None:
        task = self._kept.pop(subject).task
        if task is not None:
            task.cancel()

    async def _go_on(self, subject: str, series: Series) -> None:
        loop = asyncio.get_running_loop()
        took_s = 0.0
        while True:
            await asyncio.sleep(max(STEP_S, _SHARE * took_s))
            if loop.time() - series.looked_s > KEPT_S:
                del self._kept[subject]
                return
            began_s = loop.time()
            try:
                figures = await series.measure()
                series.trouble = None
            except (EndingError, KafkaError) as error:
                figures, series.trouble = {}, str(error)
            took_s = loop.time() - began_s
            series.add(figures)
