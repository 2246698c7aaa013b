"""What a second client notices of a load: its ping beside loads that open batches, or are large.

Each row has a broker of its own. The load runs in a process of its own, one request in flight, and
reports what it got done. The ping is in this process, at high priority where that is allowed: every
5 ms Metadata of one topic or, in turn, Produce of a small batch with acks=1 to a plain topic. Its
latency counts from the moment it was due, and pings that fall due while one is unanswered count as
answered with it: a broker that stands still cannot hide behind the one request that waits.

A load is a generator that runs in the other process: its first value comes when all is prepared,
each later one is what a request has done, in the unit of its row.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from benchmarks import (
    neighbour_batches,
    neighbour_partitions,
    neighbour_reads,
    processes,
    raw_client,
)
from benchmarks.loads import Figures, Load
from benchmarks.processes import RunningBroker
from kbroker.protocol.messages.metadata import MetadataRequest

Work = Iterator[float]
Neighbour = Callable[[RunningBroker], Work]

SECONDS = 10.0
_PACE_S = 0.005
_WARM_UP_PINGS = 100
_TOPIC = "neighbour"
_FORK = multiprocessing.get_context("fork")


class _Done(NamedTuple):
    """What the load says at its end."""

    amount: float
    requests: int
    elapsed_s: float
    longest_s: float  # of its own requests


def beside(neighbour: Neighbour, unit: str, *options: str, seconds: float = SECONDS) -> Load:
    """The ping beside a load on a broker with these options; the load ends after a request that
    ends later than `seconds`, or by itself.
    """

    def load(_: RunningBroker) -> Figures:
        with processes.kbroker(*options) as broker:
            pinger = pinger_of(broker)
            with _running(partial(_work, neighbour, broker, seconds)) as pipe:
                _told(pipe)  # prepared
                with ahead_of_others():
                    latencies = sorted(pinger.run(pipe.poll))
                done = _told(pipe)
        return _figures(latencies, done, unit)

    return load


class Pinger:
    """Sends one of its frames when one is due, and notes in ms how much later the answer is there."""

    def __init__(self, client: Any, frames: Sequence[bytes], clock: Any = time) -> None:
        self._client = client
        self._frames = cycle(frames)
        self._clock = clock

    def run(self, is_over: Callable[[], bool]) -> list[float]:
        """Ping until it is over, once at least. Pings that fell due before an answer came are not sent: each
        counts as if answered with it.
        """
        latencies: list[float] = []
        due = self._clock.perf_counter()
        while not latencies or not is_over():
            self._clock.sleep(max(0.0, due - self._clock.perf_counter()))
            self._client.send(next(self._frames))
            self._client.receive()
            now = self._clock.perf_counter()
            while due < now:
                latencies.append((now - due) * 1000)
                due += _PACE_S
        return latencies


def pinger_of(broker: RunningBroker) -> Pinger:
    """A pinger with its topic, which has pinged before."""
    raw_client.create_topic(broker.address, _TOPIC)
    client = raw_client.RawClient(broker.address)
    wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=_TOPIC)])
    produce = raw_client.produce_frame(_TOPIC, raw_client.batch_of(100, 100), acks=1)
    raw_client.produce_first(client, produce)
    pinger = Pinger(client, (raw_client.frame_of(wanted, 3, 9), produce))
    warm_up = iter(range(_WARM_UP_PINGS, -1, -1))
    pinger.run(lambda: next(warm_up) == 0)
    return pinger


@contextmanager
def ahead_of_others() -> Iterator[None]:
    """Let this process wait for nobody: else its own waiting would count as the broker's."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, usual)


@contextmanager
def _running(target: Callable[[Connection], None]) -> Iterator[Connection]:
    """`target` in a process of its own; the pipe brings what it sends."""
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=target, args=(theirs,))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()
        ours.close()


def _work(neighbour: Neighbour, broker: RunningBroker, seconds: float, pipe: Connection) -> None:
    work = neighbour(broker)
    next(work)
    pipe.send(None)
    amount, requests, longest = 0.0, 0, 0.0
    begun = last = time.perf_counter()
    for done in work:
        now = time.perf_counter()
        amount, requests, longest = amount + done, requests + 1, max(longest, now - last)
        last = now
        if now - begun > seconds:
            break
    pipe.send(_Done(amount, requests, last - begun, longest))


def _told(pipe: Connection) -> _Done:
    try:
        done: _Done = pipe.recv()
    except EOFError:
        raise RuntimeError("the load failed") from None
    return done


def _figures(latencies: list[float], done: _Done, unit: str) -> Figures:
    count = len(latencies)
    return {
        "ping_p50_ms": statistics.median(latencies),
        "ping_p99_ms": latencies[count * 99 // 100],
        "ping_p99.9_ms": latencies[count * 999 // 1000],
        "ping_worst_ms": latencies[-1],
        "pings": float(count),
        "load_requests": float(done.requests),
        "load_longest_ms": done.longest_s * 1000,
        f"load_{unit}_per_s": done.amount / done.elapsed_s,
    }


def idle(_: RunningBroker) -> Work:
    """No load: what the machine itself does to the ping."""
    while True:
        yield 0
        time.sleep(0.05)


ROWS: list[tuple[str, Load]] = [
    ("ping alone", beside(idle, "nothing")),
    *(
        (f"ping beside {name}", beside(neighbour, unit, *options))
        for rows in (neighbour_batches.ROWS, neighbour_reads.ROWS, neighbour_partitions.ROWS)
        for name, neighbour, unit, options in rows
    ),
]
