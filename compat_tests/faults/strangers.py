"""Strangers at the door of a broker beside a producer that is known: half handshakes, bytes by drops,
plain Kafka on a port with TLS, claimed sizes, wrong passwords. `python -m compat_tests.faults.strangers
--strangers 1000` prints what the broker took for them, what the producer felt, and whether all are
gone after 15 s. They come in waves: the producer's times during each are compared with those before it.
With `--elsewhere` they come to another broker beside it: what the producer still feels is of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext, suppress
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.answers.logins import Listening, plain
from compat_tests.clients.raw_connection import encode_request
from compat_tests.clients.secured_clients import secured

GONE_S = 15.0
LARGEST = 64 * 1024
_HELLO = bytes.fromhex("160301020001000 1fc0303".replace(" ", "")) + bytes(40)
_HANDSHAKE = encode_request(17, 1, 1, mechanism="PLAIN")
_WRONG = encode_request(36, 2, 2, auth_bytes=plain(password="wrong"))
_VERSIONS = encode_request(18, 0, 1)


def _sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


# The port, and what a stranger sends before it waits.
KINDS: dict[str, tuple[str, bytes]] = {
    "half a TLS handshake": ("SASL_SSL", _HELLO),
    "one byte": ("SASL_PLAINTEXT", b"\0"),
    "plain Kafka on a port with TLS": ("SASL_SSL", _sized(_VERSIONS)),
    "a size, and nothing of it": ("SASL_PLAINTEXT", struct.pack(">i", LARGEST)),
    "a frame without its end": ("SASL_PLAINTEXT", struct.pack(">i", LARGEST) + bytes(LARGEST - 1)),
    "no login after the handshake": ("SASL_PLAINTEXT", _sized(_HANDSHAKE)),
}


class Use(NamedTuple):
    """What a process takes."""

    mib: float
    descriptors: int
    cpu_s: float

    @classmethod
    def of(cls, pid: int) -> Use:
        status = Path(f"/proc/{pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
        cpu_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return cls(int(line.split()[1]) / 1024, descriptors, cpu_s)


class Times(NamedTuple):
    """How long so many records took to their answers, in milliseconds."""

    records: int
    median: float
    p99: float
    most: float

    def __str__(self) -> str:
        return (
            f"{self.records} records, median {self.median:.2f} ms, p99 {self.p99:.2f} ms, at most "
            f"{self.most:.1f} ms"
        )


class KnownProducer:
    """Sends a record every few milliseconds, and notes how long each takes to its answer."""

    def __init__(self, port: int) -> None:
        self._settings = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ann",
            "sasl.password": "pencil",
            "linger.ms": 0,
        }
        admin = AdminClient(self._settings)
        admin.create_topics([NewTopic("known", 1, 1)])["known"].result(20)
        self._producer = Producer(self._settings)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.taken_ms: list[float] = []
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(0.005):
            began = time.perf_counter()
            self._producer.produce("known", bytes(1_024))
            self._producer.flush()
            self.taken_ms.append(1_000 * (time.perf_counter() - began))

    def take(self) -> Times:
        """The times since the last call."""
        taken, self.taken_ms = self.taken_ms, []
        return Times(len(taken), median(taken), quantiles(taken, n=100)[98], max(taken))

    def stop(self) -> None:
        """Send no more."""
        self._stopped.set()
        self._thread.join()


async def _stranger(port: int, sent: bytes) -> float:
    """Send, and wait for the end; returns after how many seconds it came."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    with suppress(ConnectionError):
        while await reader.read(4_096):
            pass
    writer.close()
    return time.monotonic() - began


async def _guess(port: int) -> None:
    with suppress(OSError):
        await _stranger(port, _sized(_HANDSHAKE) + _sized(_WRONG))


async def visit(ports: dict[str, int], count: int) -> dict[str, list[float]]:
    """Have so many strangers come at once, and 200 wrong passwords a second until they are gone;
    returns after how many seconds those of each kind were closed.
    """
    kinds = list(KINDS)
    waiting: dict[str, list[asyncio.Task[float]]] = {kind: [] for kind in kinds}
    for number in range(count):
        kind = kinds[number % len(kinds)]
        protocol, sent = KINDS[kind]
        waiting[kind].append(asyncio.create_task(_stranger(ports[protocol], sent)))
    everyone = [task for tasks in waiting.values() for task in tasks]
    guesses: set[asyncio.Task[None]] = set()
    began = time.monotonic()
    while not all(task.done() for task in everyone) and time.monotonic() - began < 2 * GONE_S:
        for _ in range(20):
            guesses.add(asyncio.create_task(_guess(ports["SASL_PLAINTEXT"])))
        await asyncio.sleep(0.1)
    for task in (*everyone, *guesses):
        if not task.done():
            task.cancel()
    await asyncio.gather(*everyone, *guesses, return_exceptions=True)
    return {
        kind: [task.result() if not task.cancelled() else float("inf") for task in tasks]
        for kind, tasks in waiting.items()
    }


def _visit(ports: dict[str, int], count: int) -> dict[str, list[float]]:
    return asyncio.run(visit(ports, count))


def _wave(
    pool: ProcessPoolExecutor,
    visited: Listening,
    known: KnownProducer,
    arguments: argparse.Namespace,
) -> tuple[Times, Times]:
    """Print what one wave took of the broker that they come to; returns the producer's times before it
    and while it lasts.
    """
    known.take()
    time.sleep(arguments.before_s)
    before, use, most = known.take(), Use.of(visited.pid), 0.0
    coming = pool.submit(_visit, visited.ports, arguments.strangers)
    while not coming.done():
        most = max(most, Use.of(visited.pid).mib)
        time.sleep(0.05)
    meanwhile, closed_s = known.take(), coming.result()
    print(f"before: {before}, {use}")
    print(f"with strangers: {meanwhile}, {Use.of(visited.pid).cpu_s - use.cpu_s:.1f} s of CPU")
    for kind, times in closed_s.items():
        print(f"{kind}: {len(times)}, closed after {min(times):.1f} to {max(times):.1f} s")
    time.sleep(2)
    after = Use.of(visited.pid)
    print(
        f"after: {after}; memory grew by {most - use.mib:.1f} MiB, then {after.mib - use.mib:.1f}",
        flush=True,
    )
    return before, meanwhile


def main() -> None:
    """Let them come, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strangers", type=int, default=1_000)
    parser.add_argument("--before-s", type=float, default=10.0)
    parser.add_argument("--waves", type=int, default=5)
    parser.add_argument("--elsewhere", action="store_true", help="they come to another broker")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="strangers-") as folder,
        secured(Path(folder, "known")) as broker,
        secured(Path(folder, "other")) if arguments.elsewhere else nullcontext(broker) as visited,
        # In a process of their own, so that they take nothing of the producer's.
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
    ):
        known = KnownProducer(broker.ports["SASL_PLAINTEXT"])
        pool.submit(time.sleep, 2).result()
        waves = [_wave(pool, visited, known, arguments) for _ in range(arguments.waves)]
        known.stop()
    before, meanwhile = (median(each.p99 for each in times) for times in zip(*waves, strict=True))
    more = median(during.p99 / quiet.p99 for quiet, during in waves)
    longest = max(during.most for _, during in waves)
    print(
        f"p99 {before:.2f} ms before, {meanwhile:.2f} ms with strangers, {more:.2f} times (medians of "
        f"waves); the longest {longest:.1f} ms"
    )


if __name__ == "__main__":
    main()
