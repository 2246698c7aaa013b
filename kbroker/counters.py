"""Counters and measures of a broker, each under one name, in one registry per broker.

Pure. A part owns its counters and increments them in place (`counter.value += 1`: no call); a
measure is a function, called only when somebody looks. The part registers both under Kafka's names,
or under its own package's if Kafka has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Counter:
    """A number that only grows, from 0 at the start of the broker."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


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

    def __iter__(self) -> Iterator[MetricName]:
        """All names, in the order of registration."""
        return iter(self._sources)

    def add(self, name: MetricName, source: Counter | Gauge) -> None:
        """Register a counter or gauge. Raises ValueError for a name that is taken."""
        if name in self._sources:
            raise ValueError(f"{name} is registered already")
        self._sources[name] = source

    def source(self, name: MetricName) -> Counter | Gauge:
        """Return the counter or gauge of a name. Raises KeyError for an unknown one."""
        return self._sources[name]

    def value(self, name: MetricName) -> float:
        """Return the present value. Raises KeyError for an unknown name."""
        source = self._sources[name]
        return source.value if isinstance(source, Counter) else source()
