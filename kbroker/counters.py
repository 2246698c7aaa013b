"""Counters and measures of a broker, each under one name, in one registry per broker.

Pure. A part owns its counters and increments them in place (`counter.value += 1`: no call); a
measure is a function, called only when somebody looks. The part registers both under Kafka's names,
or under its own package's if Kafka has none. What there is of every topic, partition or API is a
table, whose rows are made when somebody looks: what is gone has none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import Enum
from math import exp
from typing import NamedTuple


class Counter:
    """A number that only grows, from 0 at the start of the broker."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class RecentRate:
    """How much a counter grows in a second, weighed over `window_s` seconds: worked out from one
    look to the next, as nobody looks at it between them.
    """

    __slots__ = ("_rate", "_seen", "_seen_s", "_window_s")

    def __init__(self, began_s: float, window_s: float, count: float = 0.0) -> None:
        """The counter was at `count` at `began_s`."""
        self._window_s = window_s
        self._seen, self._seen_s, self._rate = count, began_s, 0.0

    def at(self, now_s: float, count: float) -> float:
        """Return the rate at a time at which there are so many.

        >>> rate = RecentRate(0.0, window_s=10.0)
        >>> rate.at(1_000.0, 5_000), rate.at(1_000.5, 6_000)
        (5.0, 5.0)
        """
        passed_s = now_s - self._seen_s
        if passed_s >= 1:  # else it says little
            weight = 1 - exp(-passed_s / self._window_s)
            self._rate += weight * ((count - self._seen) / passed_s - self._rate)
            self._seen, self._seen_s = count, now_s
        return self._rate


class MetricName(NamedTuple):
    """A name as JMX has it.

    >>> str(MetricName("kafka.network", "RequestChannel", "RequestQueueSize"))
    'kafka.network:type=RequestChannel,name=RequestQueueSize'
    """

    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        return f"{self.group}:type={self.type},name={self.name}{tags}"


Gauge = Callable[[], float]
"""Says how much there is now. Cheap, and free of effects."""


class Kind(Enum):
    """The kinds of metrics: what only grows, what is now, how values are spread."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """A metric that several things have: its name without the tags that tell them apart."""

    name: MetricName
    kind: Kind


class Histogram(NamedTuple):
    """Nanoseconds by their highest bit: `counts[n]` are those of n bits, `total_ns` all of them."""

    counts: Sequence[int]
    total_ns: int


Value = float | Histogram
Row = tuple[tuple[str, ...], tuple[Value, ...]]
"""The tags of one thing and what it has of each metric."""


class Table(NamedTuple):
    """Metrics with one value each for each of many things, which `tags` tell apart.

    `rows` walks through them step by step, between which things may come and go: it has each once,
    and no step takes long; None is a step without a row.
    """

    metrics: tuple[Metric, ...]
    tags: tuple[str, ...]
    rows: Callable[[], Iterator[Row | None]]


Sample = tuple[Table, tuple[str, ...], tuple[Value, ...]]
"""One row of a table."""


class CounterRegistry:
    """The counters and gauges of one broker.

    >>> registry, requests = CounterRegistry(), Counter()
    >>> name = MetricName("kafka.server", "socket-server-metrics", "request-total")
    >>> registry.add(name, requests)
    >>> requests.value += 1
    >>> registry.value(name)
    1
    """

    def __init__(self) -> None:
        self._sources: dict[MetricName, Counter | Gauge] = {}
        self._kinds: dict[MetricName, Kind] = {}
        self._tables: list[Table] = []
        self._awaited: list[Callable[[CounterRegistry], None]] = []
        self._preparing: list[Callable[[], Awaitable[None]]] = []

    def __iter__(self) -> Iterator[MetricName]:
        """All names, in the order of registration."""
        return iter(self._sources)

    def add(self, name: MetricName, source: Counter | Gauge, kind: Kind | None = None) -> None:
        """Register a counter or gauge; with a kind, a function that gives what only grows. Raises
        ValueError for a name that is taken.
        """
        if name in self._sources:
            raise ValueError(f"{name} is registered already")
        self._sources[name] = source
        self._kinds[name] = kind or (Kind.COUNTER if isinstance(source, Counter) else Kind.GAUGE)

    def add_table(self, table: Table) -> None:
        """Register metrics of many things."""
        self._tables.append(table)

    def when_asked(self, register: Callable[[CounterRegistry], None]) -> None:
        """Have more registered once somebody asks for samples: until then it costs nothing."""
        self._awaited.append(register)

    def prepare_with(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Have this awaited before samples are taken: it asks others for what they alone know."""
        self._preparing.append(prepare)

    async def prepare(self) -> None:
        """Learn what others know; samples can be taken without, and lack it then."""
        self._register_awaited()
        for prepare in self._preparing:
            await prepare()

    def _register_awaited(self) -> None:
        while self._awaited:
            self._awaited.pop()(self)

    def samples(self) -> Iterator[Sample | None]:
        """Walk through all values of now, in steps of a few microseconds, between which others may
        run; None is a step without a value.
        """
        if self._awaited:
            self._register_awaited()
            yield None
        for name, source in list(self._sources.items()):
            value = source.value if isinstance(source, Counter) else source()
            metric = Metric(name._replace(tags=()), self._kinds[name])
            tags, values = tuple(tag for tag, _ in name.tags), tuple(each for _, each in name.tags)
            yield Table((metric,), tags, _no_rows), values, (value,)
        for table in list(self._tables):
            for row in table.rows():
                yield None if row is None else (table, *row)

    def source(self, name: MetricName) -> Counter | Gauge:
        """Return the counter or gauge of a name. Raises KeyError for an unknown one."""
        return self._sources[name]

    def value(self, name: MetricName) -> float:
        """Return the present value. Raises KeyError for an unknown name."""
        source = self._sources[name]
        return source.value if isinstance(source, Counter) else source()


def _no_rows() -> Iterator[Row]:
    return iter(())
