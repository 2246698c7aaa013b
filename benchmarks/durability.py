"""What it costs to wait for the disk: the three modes of `kbroker.flush`, with one producer and with
many.

Each row has a broker of its own. Producers send one request of about 1 KiB, wait for the answer,
and send the next. The reference writes the same bytes to a file and syncs it after each request,
without any broker: no server that syncs for every single request can be faster.
"""

from __future__ import annotations

import os
import selectors
import socket
import tempfile
import time

from benchmarks import processes, raw_client
from benchmarks.loads import Figures, Load
from benchmarks.processes import RunningBroker

_REQUEST_BYTES = 1024
_SECONDS = 4.0
_WARM_UP_S = 1.0


def flush_mode(flush: str, producers: int, partitions: int = 1) -> Load:
    """acks=all requests per second with `kbroker.flush` set so."""

    def load(_: RunningBroker) -> Figures:
        with processes.kbroker("--override", f"kbroker.flush={flush}") as broker:
            raw_client.create_topic(broker.address, "durable", partitions)
            batch = raw_client.batch_of(_REQUEST_BYTES, 100)
            frames = [
                raw_client.produce_frame("durable", batch, -1, number % partitions)
                for number in range(producers)
            ]
            _produce(broker, frames, _WARM_UP_S)
            cpu = broker.cpu_s()
            latencies = sorted(_produce(broker, frames, _SECONDS))
            cpu = broker.cpu_s() - cpu
        return {
            "requests_per_s": len(latencies) / _SECONDS,
            "p99_ms": latencies[len(latencies) * 99 // 100] * 1e3,
            "cpu_us_per_request": cpu / len(latencies) * 1e6,
        }

    return load


def sync_per_request(_: RunningBroker) -> Figures:
    """A write and an fdatasync for each request, on the disk that brokers get here."""
    frame = raw_client.batch_of(_REQUEST_BYTES, 100)
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as directory:
        fd = os.open(f"{directory}/reference", os.O_RDWR | os.O_CREAT)
        count, until = 0, time.perf_counter() + _SECONDS
        while time.perf_counter() < until:
            os.pwrite(fd, frame, count * len(frame))
            os.fdatasync(fd)
            count += 1
        os.close(fd)
    return {"requests_per_s": count / _SECONDS}


def _produce(broker: RunningBroker, frames: list[bytes], seconds: float) -> list[float]:
    """Seconds each request took."""
    selector = selectors.DefaultSelector()
    buffer = bytearray(65_536)
    latencies = []
    for frame in frames:
        connection = socket.create_connection(broker.address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(frame)
        selector.register(connection, selectors.EVENT_READ, [frame, time.perf_counter()])
    until = time.perf_counter() + seconds
    while (now := time.perf_counter()) < until:
        for key, _ in selector.select(1):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if not connection.recv_into(buffer):
                raise ConnectionError("the broker closed the connection")
            now = time.perf_counter()
            latencies.append(now - key.data[1])
            key.data[1] = now
            connection.sendall(key.data[0])
    raw_client.produced(memoryview(buffer)[4 : 4 + int.from_bytes(buffer[:4], "big")])
    for key in list(selector.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]
    selector.close()
    return latencies


ROWS: list[tuple[str, Load]] = [
    ("sync per request, no broker", sync_per_request),
    *(
        (f"flush={flush}, {producers} producers, {partitions} partitions",
         flush_mode(flush, producers, partitions))
        for producers, partitions in ((1, 1), (50, 1), (50, 50))
        for flush in ("never", "acks-all", "always")
    ),
]  # fmt: skip
