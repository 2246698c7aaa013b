"""Counters of requests by API and version: how many came, how long their answers took, which errors
they had.

A time is counted in one of 64 boxes by its highest bit, so that it costs two looks at the clock and
no call of a Python function. It begins with a request that has come whole, and ends with an answer
that is handed to its connection; the time that its client takes to read it does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns

from kbroker.counters import (
    Counter,
    CounterRegistry,
    Histogram,
    Kind,
    Metric,
    MetricName,
    Row,
    Table,
)
from kbroker.errors import ErrorCode
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.request import Request
from kbroker.protocol.schema import Message

_OF_CONSUMERS, _OF_FOLLOWERS = "FetchConsumer", "FetchFollower"
BOXES = 64  # of nanoseconds: the last begins after 292 years
# Kafka's, whose queues are not there: a request is handled as soon as it has come whole, and its
# answer handed to the connection.
_TIMES = (
    "TotalTimeMs",
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
)


TellSlow = Callable[[Request, int, Message | None], None]
"""(request, nanoseconds that it took, its message if that is still known)"""


def nobody_is_told(_request: Request, _took_ns: int, _message: Message | None = None) -> None:
    """Let a slow request pass."""


class RequestCounters:
    """The requests of one version of an API; `followers` has the answers to other brokers, as far
    as somebody wants to know them apart.
    """

    __slots__ = (
        "followers",
        "requests",
        "slow_ns",
        "tell_slow",
        "time_ns",
        "times",
        "waited_ns",
        "waited_times",
    )

    def __init__(self, slow_ns: int = sys.maxsize, tell_slow: TellSlow = nobody_is_told) -> None:
        self.requests = 0
        self.time_ns = 0  # of answers that were given at once
        self.times = [0] * BOXES  # those answers by the number of bits of their nanoseconds
        self.waited_ns = 0  # likewise of answers that had to wait for something
        self.waited_times = [0] * BOXES
        self.slow_ns = slow_ns  # an answer that took longer is reported
        self.tell_slow = tell_slow
        self.followers = self

    @property
    def answers(self) -> int:
        return sum(self.times) + sum(self.waited_times)

    def answered(self, began_ns: int, request: Request, message: Message | None = None) -> None:
        """Count an answer. Those who answer most requests do this without a call."""
        took_ns = perf_counter_ns() - began_ns
        self.times[took_ns.bit_length()] += 1
        self.time_ns += took_ns
        if took_ns > self.slow_ns:
            self.tell_slow(request, took_ns, message)

    def waited(self, began_ns: int, request: Request, message: Message | None = None) -> None:
        """Count an answer that had to wait for a disk, a replica, a record or another client."""
        took_ns = perf_counter_ns() - began_ns
        self.waited_times[took_ns.bit_length()] += 1
        self.waited_ns += took_ns
        if took_ns > self.slow_ns:
            self.tell_slow(request, took_ns, message)


class RequestStats:
    """The counters of all requests of a broker. Owned by the event loop."""

    def __init__(self) -> None:
        self._counters: dict[tuple[int, int], RequestCounters] = {}
        self._slow: tuple[int, TellSlow] = (sys.maxsize, nobody_is_told)
        self.errors: dict[tuple[int, int], int] = {}  # by API key and code
        self.bugs = Counter()  # that were answered with UNKNOWN_SERVER_ERROR
        self.trailing_bytes = Counter()  # requests with more behind their body, as of librdkafka

    @property
    def requests(self) -> int:
        """The number of requests that came."""
        return sum(counters.requests for counters in self._counters.values())

    def of(self, api_key: int, version: int) -> RequestCounters:
        """The counters of a version, made when it is asked for the first time."""
        found = self._counters.get((api_key, version))
        if found is None:
            found = self._counters[api_key, version] = RequestCounters(*self._slow)
            if api_key == ApiKey.FETCH:
                found.followers = RequestCounters(*self._slow)
        return found

    def watch(self, slow_ns: int, tell_slow: TellSlow) -> None:
        """Report requests that take longer than `slow_ns` from now on."""
        self._slow = slow_ns, tell_slow
        for counters in self._counters.values():
            for each in (counters, counters.followers):
                each.slow_ns, each.tell_slow = self._slow

    def by_version(self) -> dict[tuple[int, int], int]:
        """Return how many requests came by API key and version."""
        return {key: counters.requests for key, counters in self._counters.items()}

    def refused(self, api_key: int, code: int) -> None:
        """Count an entry of an answer that has an error."""
        self.errors[api_key, code] = self.errors.get((api_key, code), 0) + 1

    def register(self, counters: CounterRegistry) -> None:
        """Register all of these under their names."""

        def ours(name: str) -> MetricName:
            return MetricName("kbroker.apis", "KafkaApis", name)

        counters.add(ours("Requests"), lambda: self.requests, Kind.COUNTER)
        counters.add(ours("Bugs"), self.bugs)
        counters.add(ours("RequestsWithTrailingBytes"), self.trailing_bytes)
        metrics = Metric(_kafkas("RequestsPerSec"), Kind.COUNTER)
        counters.add_table(Table((metrics,), ("request", "version"), self._requests_by_version))
        errors = Metric(_kafkas("ErrorsPerSec"), Kind.COUNTER)
        counters.add_table(Table((errors,), ("request", "error"), self._errors_by_code))
        times = tuple(Metric(_kafkas(name), Kind.HISTOGRAM) for name in _TIMES)
        counters.add_table(Table(times, ("request",), self._times_by_api))

    def _requests_by_version(self) -> Iterator[Row]:
        for (key, version), counters in list(self._counters.items()):
            yield (_name(key), str(version)), (counters.requests,)
            if key == ApiKey.FETCH:  # which Kafka counts once more, by who asks, as it answers
                yield (_OF_FOLLOWERS, str(version)), (counters.followers.answers,)
                yield (_OF_CONSUMERS, str(version)), (counters.answers,)

    def _errors_by_code(self) -> Iterator[Row]:
        for (key, code), count in list(self.errors.items()):
            yield (_name(key), ErrorCode(code).name), (count,)

    def _times_by_api(self) -> Iterator[Row]:
        by_key: dict[int, list[RequestCounters]] = {}
        for (key, _), counters in list(self._counters.items()):
            by_key.setdefault(key, []).append(counters)
        for key, versions in by_key.items():
            if key == ApiKey.FETCH:
                followers = [each.followers for each in versions]
                yield (_OF_CONSUMERS,), _times_of(versions)
                yield (_OF_FOLLOWERS,), _times_of(followers)
                versions += followers
            yield (_name(key),), _times_of(versions)


def _times_of(versions: Sequence[RequestCounters]) -> tuple[Histogram, ...]:
    """The histograms of `_TIMES`, which have as many values each. A request that waited counts with
    all its time as one that was remote: the part before the wait is not measured.
    """
    at_once = [sum(box) for box in zip(*(each.times for each in versions), strict=True)]
    waited = [sum(box) for box in zip(*(each.waited_times for each in versions), strict=True)]
    at_once_ns = sum(each.time_ns for each in versions)
    waited_ns = sum(each.waited_ns for each in versions)
    local = [at_once[0] + sum(waited), *at_once[1:]]
    remote = [waited[0] + sum(at_once), *waited[1:]]
    total = [a + b for a, b in zip(at_once, waited, strict=True)]
    none = Histogram([sum(total), *[0] * (BOXES - 1)], 0)
    return (
        Histogram(total, at_once_ns + waited_ns),
        none,
        Histogram(local, at_once_ns),
        Histogram(remote, waited_ns),
        none,
        none,
    )


def _kafkas(name: str) -> MetricName:
    return MetricName("kafka.network", "RequestMetrics", name)


def _name(key: int) -> str:
    return ApiKey(key).api_name
