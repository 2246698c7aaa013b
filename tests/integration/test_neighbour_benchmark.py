"""The benchmark of a second client's ping: what it counts is what happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import neighbour, neighbour_batches, raw_client
from benchmarks.processes import RunningBroker

NOT_USED: Any = None  # the broker that other benchmarks are handed


def three_requests(broker: RunningBroker) -> Iterator[int]:
    client = raw_client.RawClient(broker.address)
    raw_client.create_topic(broker.address, "few")
    frame = raw_client.produce_frame("few", raw_client.batch_of(1_000, 100), acks=1)
    raw_client.produce_first(client, frame)
    yield 0
    for _ in range(3):
        client.send(frame)
        raw_client.produced(client.receive())
        yield 8


def failing(broker: RunningBroker) -> Iterator[int]:
    yield 0
    raise RuntimeError("the broker refused it")


def test_a_load_is_pinged_beside_and_counted_to_its_end() -> None:
    figures = neighbour.beside(three_requests, "records")(NOT_USED)
    assert figures["load_requests"] == 3
    assert figures["load_records_per_s"] > 0
    pings = [figures[f"ping_{name}_ms"] for name in ("p50", "p99", "p99.9", "worst")]
    assert pings == sorted(pings)
    assert pings[0] > 0


def test_an_endless_load_ends_with_the_request_that_passes_the_given_time() -> None:
    figures = neighbour.beside(neighbour.idle, "nothing", seconds=0)(NOT_USED)
    assert figures["load_requests"] == 1


def test_a_load_that_is_refused_gives_no_figures() -> None:
    with pytest.raises(RuntimeError, match="the load failed"):
        neighbour.beside(failing, "records")(NOT_USED)


def test_tiny_records_are_taken_by_a_compacted_topic() -> None:
    settings = {"cleanup.policy": "compact"}
    producing = neighbour_batches.producing("zstd", settings, count=100)
    assert neighbour.beside(producing, "records", seconds=0)(NOT_USED)["load_requests"] == 1


class StandingBroker:
    """Answers the first pings at once, then one after four more were due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pings = 0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def send(self, frame: bytes) -> None:
        self.pings += 1

    def receive(self) -> None:
        self.now += 0.022 if self.pings == 3 else 0.001


def test_pings_that_fall_due_while_one_waits_count_as_answered_with_it() -> None:
    broker = StandingBroker()
    pinger = neighbour.Pinger(broker, [b"ping"], broker)
    latencies = pinger.run(lambda: broker.pings == 4)
    assert [round(each) for each in latencies] == [1, 1, 22, 17, 12, 7, 2, 1]
