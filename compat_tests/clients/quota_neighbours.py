"""What a client without a quota feels of a hundred that are throttled: it sends batches of 16 KB one
after another, alone and beside them, in turn, and its times are compared: `python -m
compat_tests.clients.quota_neighbours`. It fails if the median of its p99 grows by a fifth, and by 2
ms.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from compat_tests.clients.raw_connection import (
    ClosedError,
    RawConnection,
    SilenceError,
    encode_request,
)
from compat_tests.cluster.mixed_quotas import alter
from compat_tests.conftest import BrokerProcess
from compat_tests.wire.record_bytes import Batch

BATCH = Batch(pairs=((None, bytes(16_000)),)).to_bytes()
PRODUCE, VERSION = 0, 8
MOST_RATIO, MOST_MORE_MS = 1.2, 2.0
_THROTTLE_TIME = struct.Struct(">i")  # at the end of an answer
_SETTLED_S = 5.0  # by then all of them pause
_STARTED_S = 0.2


def frame_of(client_id: str, topic: str) -> bytes:
    """A request with one batch."""
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": BATCH}]}]
    return encode_request(
        PRODUCE, VERSION, 1, client_id,
        transactional_id=None, acks=1, timeout=10_000, topic_data=topics,
    )  # fmt: skip


class Throttled(threading.Thread):
    """A client that sends as fast as it may."""

    def __init__(self, bootstrap: str, number: int) -> None:
        super().__init__(daemon=True)
        self._connection = RawConnection(bootstrap, 600)
        self._frame = frame_of(f"slow-{number}", f"slow-{number % 10}")
        self.pauses = 0

    def run(self) -> None:
        try:
            while True:
                self._connection.send_frame(self._frame)
                answer = self._connection.receive_frame()
                self.pauses += _THROTTLE_TIME.unpack(answer[-4:])[0] > 0
        except (ClosedError, SilenceError, OSError):
            return

    def stop(self) -> None:
        """Leave, also amid a pause."""
        self._connection.socket.shutdown(socket.SHUT_RDWR)


def times_ms(bootstrap: str, seconds: float) -> list[float]:
    """The times of a client that sends one batch after another, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_times_ms, (bootstrap, seconds))


def _times_ms(bootstrap: str, seconds: float) -> list[float]:
    connection = RawConnection(bootstrap, 60)
    frame = frame_of("free", "free")
    found: list[float] = []
    began_s = time.monotonic()
    while time.monotonic() - began_s < seconds:
        sent_s = time.perf_counter()
        connection.send_frame(frame)
        connection.receive_frame()
        found.append(1000 * (time.perf_counter() - sent_s))
    connection.close()
    return sorted(found)


def p99(times: list[float]) -> float:
    """The time that 99 of 100 stay below."""
    return times[len(times) * 99 // 100]


def main(argv: list[str] | None = None) -> int:
    """Measure, print both times; 1 if the client feels more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rate", type=float, default=20_000.0, help="bytes in a second of each")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each time")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "data")
        broker.start()
        try:
            return _measured(broker.bootstrap, given)
        finally:
            broker.stop()


def _measured(bootstrap: str, given: argparse.Namespace) -> int:
    admin = RawConnection(bootstrap, 60)
    names = ["free", *(f"slow-{number}" for number in range(10))]
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    admin.call(19, 5, topics=topics, timeout=30_000)
    for number in range(given.clients):
        entity = (("client-id", f"slow-{number}"),)
        alter(admin, entity, "producer_byte_rate", given.rate)
    times_ms(bootstrap, _STARTED_S)
    alone, beside, paused = [], [], given.clients
    for _ in range(given.rounds):
        alone.append(p99(times_ms(bootstrap, given.seconds)))
        slow = [Throttled(bootstrap, number) for number in range(given.clients)]
        for each in slow:
            each.start()
        time.sleep(_SETTLED_S)
        beside.append(p99(times_ms(bootstrap, given.seconds)))
        paused = min(paused, sum(each.pauses > 0 for each in slow))
        for each in slow:
            each.stop()
        sys.stdout.write(f"p99 alone {alone[-1]:.2f} ms, beside them {beside[-1]:.2f} ms\n")
    before, after = median(alone), median(beside)
    sys.stdout.write(
        f"median of p99: alone {before:.2f} ms, beside {given.clients} clients, {paused} of them "
        f"paused, {after:.2f} ms: {after / before:.2f} times\n"
    )
    grew = after / before > MOST_RATIO and after - before > MOST_MORE_MS
    return int(grew or paused < given.clients)


if __name__ == "__main__":
    sys.exit(main())
