"""The calls that a request may cost, counted in a broker that clients ask: not time, which depends
on the machine. A change that needs more calls says so here; one that needs fewer lowers a number.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from benchmarks import raw_client
from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient
from benchmarks.request_kinds import (
    Fetch,
    Frames,
    Heartbeat,
    Metadata,
    OffsetCommit,
    Produce,
    delivery_at,
)
from compat_tests.running import apache_kafka
from compat_tests.running.waiting import until
from tests.fakes.running import counted_broker
from tests.fakes.running.counted_broker import PYTHON, SYSTEM, TURNS, C

REQUESTS = 300
MARGIN = 1.0  # for the answer beside them, and what the loop does for itself
# A large answer takes a call more each time the client's side of the socket was full; two
# connections share a turn or have one each.
MARGIN_OF_CHANCE = 16.0


class Budget(NamedTuple):
    """Calls per request: of Python functions, of C functions, and of the system among them."""

    python: float
    c: float
    system: float
    margin: float = MARGIN


# Three calls of C are for its time: two looks at the clock, and the highest bit between them.
# One connection, one request in flight: each request has a turn of the loop to itself. The loop's
# own waiting and reading, two more calls of the system, are not counted.
BUDGETS: list[tuple[str, Any, Budget]] = [
    ("produce 100 B", Produce(batch_bytes=100, record_bytes=100), Budget(40, 57, 2)),
    ("produce 16 KB", Produce(batch_bytes=16_384, record_bytes=1_000), Budget(52, 79, 2)),
    (
        "produce acks=all",
        Produce(batch_bytes=1_000, record_bytes=1_000, acks=-1),
        Budget(40, 57, 2),
    ),
    (
        "produce to a thousand partitions in turn",
        Produce(batch_bytes=1_000, record_bytes=1_000, partitions=1_000),
        Budget(40, 57, 2),
    ),
    ("fetch 100 B", Fetch(batch_bytes=100, record_bytes=100, batches=1_000), Budget(53, 98, 3)),
    ("fetch 16 KB", Fetch(batch_bytes=16_384, record_bytes=1_000, batches=100), Budget(58, 95, 4)),
    (
        "fetch 1 MB",
        Fetch(batch_bytes=16_384, record_bytes=1_000, batches=100, answered=64),
        Budget(66, 118, 5, MARGIN_OF_CHANCE),
    ),
    (
        "fetch 100 B in a session",
        Fetch(batch_bytes=100, record_bytes=100, batches=1_000, in_session=True),
        Budget(65, 107, 3),
    ),
    (
        "fetch 1 MB in a session",
        Fetch(batch_bytes=16_384, record_bytes=1_000, batches=100, answered=64, in_session=True),
        Budget(78, 126, 5, MARGIN_OF_CHANCE),
    ),
    ("heartbeat", Heartbeat(), Budget(18, 28, 1)),
    ("commit", OffsetCommit(), Budget(55, 75, 2)),  # with its topic's id, from group.version 1 on
    ("metadata of a topic", Metadata(topics=1), Budget(22, 32, 1)),
]


# A record, produced while a consumer waits for it, that has a session or none.
DELIVERED = {
    False: Budget(88, 140, 5, MARGIN_OF_CHANCE),  # who comes first is chance on a busy machine
    True: Budget(98, 145, 5, MARGIN_OF_CHANCE),
}


# What it takes more to ask the rules, in calls of Python and of C.
WITH_RULES = {
    "produce 16 KB": (5, 1),
    "fetch 100 B": (6, 2),
    "fetch 100 B in a session": (7, 2),
    "heartbeat": (5, 1),
    "commit": (7, 2),
    "metadata of a topic": (5, 1),
}
_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


class CountedBroker(NamedTuple):
    """A broker that counts its calls, the file it writes them to, and its HTTP address."""

    running: RunningBroker
    counts: Path
    http: str

    def calls(self, client: RawClient, ask: Callable[[], None], settled: bytes) -> dict[str, int]:
        """The fewest calls of three runs of `ask`. An answer to `settled` shows that the signal has
        come.
        """
        runs = [self._calls(client, ask, settled) for _ in range(3)]
        return min(runs, key=lambda counted: counted[PYTHON])

    def _calls(self, client: RawClient, ask: Callable[[], None], settled: bytes) -> dict[str, int]:
        self.counts.unlink(missing_ok=True)
        for step in (ask, lambda: None):
            os.kill(self.running.process.pid, signal.SIGUSR1)
            client.send(settled)
            client.receive()
            step()
        until(self.counts.exists)
        return of_requests(json.loads(self.counts.read_text()))


def of_requests(counted: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The calls in turns of the loop that come with requests. What else a broker does comes with
    time: more often the slower the machine is, but never for every third request.
    """
    found: Counter[str] = Counter()
    for of_turn in counted.values():
        if of_turn[TURNS] > REQUESTS / 3:
            found.update(of_turn)
    return dict(found)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedBroker]:
    with counted(tmp_path_factory.mktemp("counted")) as broker:
        yield broker


@pytest.fixture(scope="module")
def broker_with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedBroker]:
    """One that asks its rules whether a client may do something, which it then may."""
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with counted(tmp_path_factory.mktemp("ruled"), settings) as broker:
        yield broker


@contextmanager
def counted(directory: Path, settings: Mapping[str, str] = _NO_SETTINGS) -> Iterator[CountedBroker]:
    """A broker that counts its calls."""
    port, http = apache_kafka.free_port(), f"127.0.0.1:{apache_kafka.free_port()}"
    counts = directory / "counts"
    command = [
        sys.executable, counted_broker.__file__, str(counts),
        "start", "--listen", f"127.0.0.1:{port}", "--data", str(directory / "data"),
        "--override", f"kbroker.http.listeners={http}",
    ]  # fmt: skip
    for setting in settings.items():
        command += ["--override", "=".join(setting)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            apache_kafka.wait_for_port(port, process)
            running = RunningBroker("counted", f"127.0.0.1:{port}", process, time.perf_counter())
            yield CountedBroker(running, counts, http)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("load", "budget"), [pytest.param(*each[1:], id=each[0]) for each in BUDGETS]
)
def test_a_request_keeps_to_its_budget(broker: CountedBroker, load: Any, budget: Budget) -> None:
    assert_kept(calls_of(broker, load), budget)


@pytest.mark.parametrize("name", sorted(WITH_RULES))
def test_a_request_that_rules_allow_keeps_to_its_budget(
    broker_with_rules: CountedBroker, name: str
) -> None:
    _, load, budget = next(each for each in BUDGETS if each[0] == name)
    more = WITH_RULES[name]
    allowed = budget._replace(python=budget.python + more[0], c=budget.c + more[1])
    assert_kept(calls_of(broker_with_rules, load), allowed)


def calls_of(broker: CountedBroker, load: Any) -> dict[str, int]:
    """The calls of a load whose requests are known."""
    made = load.made(broker.running, 1_000)
    frames = sent_in_turn(made)
    client = RawClient(broker.running.address)

    def ask() -> None:
        for frame in islice(frames, REQUESTS):
            client.send(frame)
            client.receive()

    ask()  # it is known from now on
    ask()
    found = broker.calls(client, ask, made.frames[0])
    client.close()
    return found


def test_a_request_costs_no_more_once_somebody_has_followed_requests_and_gone(
    broker: CountedBroker,
) -> None:
    _, load, budget = next(each for each in BUDGETS if each[0] == "heartbeat")
    made = load.made(broker.running, 1_000)
    client = RawClient(broker.running.address)

    def ask() -> None:
        for frame in islice(sent_in_turn(made), REQUESTS):
            client.send(frame)
            client.receive()

    ask()
    connection = HTTPConnection(broker.http, timeout=30)
    connection.request("GET", "/api/trace?api=Heartbeat")
    answer = connection.getresponse()
    ask()
    assert json.loads(answer.readline())["api"] == "Heartbeat"
    followed = broker.calls(client, ask, made.frames[0])
    connection.close()

    def has_stopped() -> bool:
        ask()  # it is known again
        counted = broker.calls(client, ask, made.frames[0])
        return counted[PYTHON] < followed[PYTHON] / 2

    until(has_stopped)
    assert_kept(broker.calls(client, ask, made.frames[0]), budget)
    client.close()


def sent_in_turn(made: Frames) -> Iterator[bytes]:
    """The frames, again and again; those of a session have its epochs."""
    at = made.rising_at
    for number, frame in enumerate(cycle(made.frames), 1):
        yield frame[:at] + number.to_bytes(4, "big") + frame[at + 4 :] if at else frame


@pytest.mark.parametrize("in_session", [False, True])
def test_a_record_reaches_a_waiting_consumer_within_its_budget(
    broker: CountedBroker, in_session: bool
) -> None:
    address, topic = broker.running.address, f"delivered-{in_session}"
    raw_client.create_topic(address, topic)
    load = delivery_at(address, topic, 100, acks=1, in_session=in_session)
    producer, consumer = RawClient(address), RawClient(address)
    fetch, end, epoch = bytearray(load.fetch), load.offset, load.first

    def ask() -> None:
        nonlocal end, epoch
        for _ in range(REQUESTS):
            if in_session:
                epoch += 1
                fetch[load.rising_at : load.rising_at + 4] = epoch.to_bytes(4, "big")
            fetch[load.offset_at : load.offset_at + 8] = end.to_bytes(8, "big")
            consumer.send(bytes(fetch))
            producer.send(load.produce)
            producer.receive()
            consumer.receive()
            end += 1

    ask()
    counted = broker.calls(RawClient(address), ask, load.produce)
    assert_kept(counted, DELIVERED[in_session])


def assert_kept(counted: dict[str, int], budget: Budget) -> None:
    python, c, system = (counted.get(kind, 0) / REQUESTS for kind in (PYTHON, C, SYSTEM))
    sys.stdout.write(f"Budget({python:.1f}, {c:.1f}, {system:.1f})\n")
    assert python <= budget.python + budget.margin
    assert c <= budget.c + budget.margin
    assert system <= budget.system + budget.margin / 2
