"""The loads of single requests, as one table, and how one of them is prepared, warmed and measured.

A round is the CPU of the broker for so many requests, from a generator that costs little. Before the
first round every broker has answered as many requests of that very load as `Effort` says, since Java
is warm only then. All brokers take the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from benchmarks import raw_client
from benchmarks.answer_places import JAVA_PRODUCE
from benchmarks.generator import Traffic, deliver, send
from benchmarks.loads import Figures
from benchmarks.preparations import new_topic
from benchmarks.processes import RunningBroker
from benchmarks.request_kinds import (
    Delivered,
    Fetch,
    Frames,
    Heartbeat,
    Metadata,
    OffsetCommit,
    Produce,
    delivery_at,
)

Measure = Callable[[], Figures]
_KIB, _MIB = 1024, 1024 * 1024
_SMALL = 16 * _KIB  # batches of a log


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long a load goes on, and how large it gets."""

    warm_up_requests: int
    warm_up_s: int  # at most
    share: float = 1.0  # of the requests of a round
    most: int = 1 << 31  # partitions, topics, connections; a hundred times as many batches of a log

    def part_of(self, count: int) -> int:
        """How many of the requests of a whole round are sent, one at least."""
        return max(1, int(count * self.share))


FULL = Effort(warm_up_requests=100_000, warm_up_s=30)
QUICK = Effort(warm_up_requests=50, warm_up_s=1, share=0.002, most=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLoad:
    """A row of the table."""

    name: str
    sends: Produce | Fetch | Delivered | Heartbeat | OffsetCommit | Metadata
    in_flight: int = 1  # on all connections together
    connections: int = 1
    requests: int = 20_000  # of a round
    in_memory: bool = True  # so little that a broker that keeps it there can

    @contextmanager
    def prepared(self, broker: RunningBroker, effort: Effort) -> Iterator[Measure]:
        """Make what the load needs, warm the broker, and give what measures one round."""
        if isinstance(self.sends, Delivered):
            topic = new_topic(broker)
            yield self._delivering(self.sends, topic, broker, effort)
            raw_client.delete_topics(broker.address, [topic])
            return
        made = self.sends.made(broker, effort.most)
        yield self._sending(self.traffic_of(made, effort), broker, effort)
        raw_client.delete_topics(broker.address, made.topics)

    def traffic_of(self, made: Frames, effort: Effort) -> Traffic:
        """How these frames are sent."""
        return Traffic(
            frames=made.frames,
            in_flight=self.in_flight,
            connections=min(self.connections, effort.most),
            error_at=made.error_at,
            batch_at=made.batch_at,
            rising_at=made.rising_at,
        )

    @contextmanager
    def prepared_bare(self, loop: RunningBroker, effort: Effort) -> Iterator[Measure]:
        """The same for a bare loop, which knows one answer."""
        assert isinstance(self.sends, Produce)
        traffic = Traffic(frames=[self.sends.bare()[0]], in_flight=self.in_flight)
        yield self._sending(traffic, loop, effort)

    @property
    def disk_bytes(self) -> int:
        """The size of the log that it reads, at each broker."""
        return self.sends.batches * self.sends.batch_bytes if isinstance(self.sends, Fetch) else 0

    @property
    def has_bare_loop(self) -> bool:
        """Whether a loop that always gives the same answer, to one connection, can serve it."""
        return (
            isinstance(self.sends, Produce) and self.connections == 1 and self.sends.partitions == 1
        )

    def _sending(self, traffic: Traffic, broker: RunningBroker, effort: Effort) -> Measure:
        pids = [broker.process.pid]
        warmed = send(broker.address, traffic, effort.warm_up_requests, seconds=effort.warm_up_s)
        sent = warmed.sent

        def measure() -> Figures:
            nonlocal sent
            requests = effort.part_of(self.requests)
            took = send(broker.address, replace(traffic, first=sent), requests, pids)
            sent = took.sent
            return {"cpu_us_per_request": took.cpu_us, "requests_per_s": took.per_s}

        return measure

    def _delivering(
        self, sends: Delivered, topic: str, broker: RunningBroker, effort: Effort
    ) -> Measure:
        pids, address = [broker.process.pid], broker.address
        next_delivery = partial(
            delivery_at, address, topic, sends.record_bytes, sends.acks, in_session=sends.in_session
        )
        deliver(address, next_delivery(), effort.warm_up_requests // 2, seconds=effort.warm_up_s)

        def measure() -> Figures:
            records = effort.part_of(self.requests)
            took = deliver(address, next_delivery(), records, pids, sends.per_s)
            return {
                "cpu_us_per_record": took.cpu_us,
                "p50_ms": took.p50_ns / 1e6,
                "p99_ms": took.p99_ns / 1e6,
            }

        return measure


def _produce(
    name: str, batch_bytes: int, record_bytes: int, in_flight: int, requests: int = 20_000,
    **more: int,
) -> RequestLoad:  # fmt: skip
    sends = Produce(batch_bytes=batch_bytes, record_bytes=record_bytes, **more)
    acks = "all" if sends.acks < 0 else str(sends.acks)
    named = f"produce {name}, acks={acks}, {in_flight} in flight"
    return RequestLoad(name=named, sends=sends, in_flight=in_flight, requests=requests)


def _fetch(name: str, in_flight: int, requests: int, fetch: Fetch) -> RequestLoad:
    named = f"fetch {name}, {in_flight} in flight"
    return RequestLoad(name=named, sends=fetch, in_flight=in_flight, requests=requests)


def _log(size: str, size_bytes: int) -> RequestLoad:
    batches = size_bytes // _SMALL
    return RequestLoad(
        name=f"log: fetch 16 KB from 1,000 places of {size}, 1 in flight",
        sends=Fetch(batch_bytes=_SMALL, record_bytes=1_000, batches=batches),
        in_memory=size_bytes <= 1 << 30,
    )


def _delivered(name: str, record_bytes: int, per_s: int = 0, *, java: bool = False) -> RequestLoad:
    sends = Delivered(record_bytes=record_bytes, per_s=per_s, in_session=java)
    return RequestLoad(name=name, sends=sends, requests=5_000)


_HUNDRED_BYTES = Fetch(batch_bytes=100, record_bytes=100, batches=10_000)
_SIXTEEN_KB = Fetch(batch_bytes=_SMALL, record_bytes=1_000, batches=2_000)
_MEGABYTE = Fetch(batch_bytes=_SMALL, record_bytes=1_000, batches=4_000, answered=64)
_ONE_KB = Produce(batch_bytes=_KIB, record_bytes=1_000)

LOADS: list[RequestLoad] = [
    *(_produce("100 B", 100, 100, k) for k in (1, 5)),
    _produce("100 B", 100, 100, 5, acks=-1),
    *(_produce("1 KB", _KIB, 1_000, k) for k in (1, 5)),
    *(
        _produce("16 KB of 1 KB records", _SMALL, 1_000, k, 10_000, acks=acks)
        for acks in (1, -1)
        for k in (1, 5)
    ),
    *(_produce("16 KB of 100 B records", _SMALL, 100, k, 10_000) for k in (1, 5)),
    *(
        _produce("16 KB idempotent", _SMALL, 1_000, k, 10_000, acks=-1, idempotent=True)
        for k in (1, 5)
    ),
    _produce("16 KB as Java 4 (topic id)", _SMALL, 1_000, 5, 10_000, acks=-1, version=JAVA_PRODUCE),
    *(_fetch("100 B", k, 20_000, _HUNDRED_BYTES) for k in (1, 5)),
    *(_fetch("16 KB", k, 20_000, _SIXTEEN_KB) for k in (1, 5)),
    _fetch("16 KB as Java 4 (session)", 1, 20_000, replace(_SIXTEEN_KB, in_session=True)),
    *(_fetch("1 MB", k, 3_000, _MEGABYTE) for k in (1, 5)),
    _delivered("deliver 100 B: fetch at the end, acks=all", 100),
    _delivered("deliver 100 B as Java 4 (session), acks=all", 100, java=True),
    _delivered("deliver 16 KB: fetch at the end, acks=all", 16_000),
    _delivered("deliver 100 B at 1,000/s: fetch at the end, acks=all", 100, 1_000),
    RequestLoad(name="heartbeat, 1 in flight", sends=Heartbeat()),
    RequestLoad(name="commit of one offset, 1 in flight", sends=OffsetCommit(), requests=10_000),
    RequestLoad(name="metadata of 1 topic, 1 in flight", sends=Metadata(topics=1)),
    *(
        RequestLoad(
            name=f"metadata of 1,000 topics, {how}, 1 in flight",
            sends=Metadata(topics=1_000, by_name=by_name),
            requests=1_000,
        )
        for how, by_name in (("by name", True), ("as all that are there", False))
    ),
    *(
        RequestLoad(
            name=f"connections: produce 1 KB over {count:,}, {in_flight:,} in flight",
            sends=_ONE_KB,
            in_flight=in_flight,
            connections=count,
        )
        for count, in_flight in ((100, 5), (1_000, 5), (1_000, 1_000), (5_000, 5))
    ),
    *(
        _log(size, size_bytes)
        for size, size_bytes in (
            ("1 MB", _MIB),
            ("10 MB", 10 * _MIB),
            ("100 MB", 100 * _MIB),
            ("1 GB", 1 << 30),
            ("10 GB", 10 << 30),
        )
    ),
    # At the end: brokers go on deleting thousands of partitions for a minute or more.
    *(
        RequestLoad(
            name=f"partitions: produce 1 KB over {count:,}, 5 in flight",
            sends=replace(_ONE_KB, partitions=count),
            in_flight=5,
        )
        for count in (10, 100, 1_000, 10_000)
    ),
]
