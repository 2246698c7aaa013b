"""Clients that misbehave beside one that does not: the good one must not notice."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random

from kbroker.apis import registry
from kbroker.memory_room import FRAMES_BYTES
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from tests.faults.running_broker import RunningBroker, frame, read_answer
from tests.properties.message_samples import random_struct

MakeBroker = Callable[..., RunningBroker]

SEED = 20
MUTATIONS = 1_500
MEMORY_GROWTH_MB = 60
LATENCY_MS = 400  # blocked for seconds is what this looks for; a test machine is not quiet
EDGES = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\xff\xff\xff\x0f")


class Pinger:
    """A client that asks again and again; `worst_ms` is the longest it waited."""

    def __init__(self, broker: RunningBroker) -> None:
        self.worst_ms = 0.0
        self.answers = 0
        self._stop = threading.Event()
        self._connection = broker.connect(30)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        ping = frame(18, 2, encode(ApiVersionsRequest(), 2))
        while not self._stop.wait(0.005):
            began_s = time.perf_counter()
            self._connection.sendall(ping)
            assert read_answer(self._connection)
            self.worst_ms = max(self.worst_ms, (time.perf_counter() - began_s) * 1000)
            self.answers += 1

    @classmethod
    @contextmanager
    def beside(cls, broker: RunningBroker) -> Iterator[Pinger]:
        """Ping while the block runs."""
        pinger = cls(broker)
        pinger._thread.start()
        yield pinger
        pinger._stop.set()
        pinger._thread.join(30)
        pinger._connection.close()


# A broker that is told of a controller to come, or to stop leading, obeys; tests/faults/hostile_orders.py
# sends it such orders.
_ORDERS = {
    "LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest", "ControlledShutdownRequest",
}  # fmt: skip


def test_mutated_requests_are_answered_or_closed_and_nothing_breaks(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker().start()
    broker.assert_serves()
    before_mb = broker.memory_mb()
    random = Random(SEED)
    apis = [
        api for api in registry.registered().values() if api.request_class.spec.name not in _ORDERS
    ]
    connection = broker.connect(2)

    for _ in range(MUTATIONS):
        api = random.choice(apis)
        version = random.randrange(api.versions.lowest, api.versions.highest + 1)
        body = mutated(encode(random_struct(api.request_class, version, random), version), random)
        flexible = version in api.request_class.spec.flexible
        try:
            connection.sendall(frame(api.key, version, body, flexible=flexible))
            answered = bool(read_answer(connection))
        except (TimeoutError, ConnectionError):  # acks=0 has no answer
            answered = False
        if not answered:
            connection.close()
            connection = broker.connect(2)

    connection.close()
    broker.assert_serves()
    assert broker.memory_mb() - before_mb < MEMORY_GROWTH_MB
    assert broker.stop() == 0
    assert "Traceback" not in broker.said()


def mutated(body: bytes, random: Random) -> bytes:
    data = bytearray(body)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        position = random.randrange(len(data) + 1)
        choice = random.random()
        if choice < 0.4 and position < len(data):
            data[position] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        elif choice < 0.6:
            data[position : position + 4] = random.choice(EDGES)
        elif choice < 0.75:
            del data[position : position + random.randrange(1, 9)]
        elif choice < 0.9:
            data[position:position] = random.randbytes(random.randrange(1, 9))
        else:
            del data[position:]
    return bytes(data)


def test_half_frames_and_dripping_clients_do_not_slow_others(make_broker: MakeBroker) -> None:
    broker = make_broker().start()
    before_mb = broker.memory_mb()
    half = struct.pack(">i", 1_000_000) + b"\0\x12\0\2"
    connections = [broker.connect() for _ in range(500)]
    for connection in connections:
        connection.sendall(half)

    with Pinger.beside(broker) as pinger:
        rounds = 0
        while rounds < 5 or pinger.answers <= 20:  # the pinger is slow on a busy machine
            for connection in connections:
                connection.sendall(b"x")
            time.sleep(0.1)
            rounds += 1

    assert pinger.worst_ms < LATENCY_MS
    assert broker.memory_mb() - before_mb < MEMORY_GROWTH_MB
    for connection in connections:
        connection.close()
    assert broker.stop() == 0
    assert "Traceback" not in broker.said()


def test_large_frames_that_never_end_take_a_bounded_part_of_the_memory(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker().start()
    before_mb = broker.memory_mb()
    rest = bytearray(1_000_000)
    connections = [broker.connect() for _ in range(60)]
    for connection in connections:
        connection.sendall(struct.pack(">i", 33_000_000) + b"\0\x03\0\x04")
        connection.setblocking(False)

    most_mb = 0.0
    with broker.connect(30) as another:
        for _ in range(32):
            for connection in connections:
                with suppress(BlockingIOError):
                    connection.send(rest)
            another.sendall(frame(18, 2, encode(ApiVersionsRequest(), 2)))
            assert read_answer(another)
            most_mb = max(most_mb, broker.memory_mb() - before_mb)

    assert most_mb < FRAMES_BYTES / 1e6 + 33 + MEMORY_GROWTH_MB
    for connection in connections:
        connection.close()
    broker.assert_serves()
    assert broker.stop() == 0
    assert "Traceback" not in broker.said()


def test_a_client_that_reads_no_answers_is_not_read_from_either(make_broker: MakeBroker) -> None:
    broker = make_broker().start()
    before_mb = broker.memory_mb()
    deaf = broker.connect()
    deaf.settimeout(0.5)
    ping = frame(18, 2, encode(ApiVersionsRequest(), 2)) * 1_000
    sent = 0

    with Pinger.beside(broker) as pinger:
        try:
            while sent < 200_000_000:
                sent += deaf.send(ping)
        except TimeoutError:
            pass

    assert sent < 50_000_000
    assert broker.memory_mb() - before_mb < MEMORY_GROWTH_MB
    assert pinger.worst_ms < LATENCY_MS
    deaf.close()
    assert broker.stop() == 0


def test_connections_beyond_the_limit_of_an_address_are_closed(make_broker: MakeBroker) -> None:
    broker = make_broker("--override", "max.connections.per.ip=20").start()

    connections = [broker.connect() for _ in range(60)]
    time.sleep(0.5)
    closed = sum(is_closed(connection) for connection in connections)

    assert closed == 40
    for connection in connections:
        connection.close()
    time.sleep(0.3)
    broker.assert_serves()


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_others_are_served_while_a_topic_of_many_partitions_comes_and_goes(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker().start()
    admin = broker.connect(60)
    topic = CreateTopicsRequest.CreatableTopic(
        name="big", num_partitions=1_000, replication_factor=1
    )
    create = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    everything = MetadataRequest(topics=None)
    delete = DeleteTopicsRequest(topic_names=["big"], timeout_ms=60_000)

    with Pinger.beside(broker) as pinger:
        for key, request in ((19, create), (3, everything), (20, delete)):
            admin.sendall(frame(key, 2, encode(request, 2)))
            assert read_answer(admin)

    assert pinger.worst_ms < LATENCY_MS
    admin.close()
    assert broker.stop() == 0
    assert "Traceback" not in broker.said()


def test_two_billion_partitions_are_refused(make_broker: MakeBroker) -> None:
    broker = make_broker().start()
    topic = CreateTopicsRequest.CreatableTopic(
        name="big", num_partitions=2**31 - 1, replication_factor=1
    )

    with broker.connect() as admin:
        admin.sendall(frame(19, 2, encode(CreateTopicsRequest(topics=[topic]), 2)))
        answer = read_answer(admin)

    assert b"Excessively large number of partitions" in answer
    broker.assert_serves()
