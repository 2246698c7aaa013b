"""What the storage layer costs: recovery, opening, memory, appends into a growing log, cold reads.

The loads prepare directories of their own and start brokers on them; the broker they are handed is
not used. Everything written is removed.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import raw_client
from benchmarks.loads import Figures, Load
from benchmarks.processes import RunningBroker
from compat_tests.running import apache_kafka
from kbroker.config.topic_config import TopicConfig
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.recovery.log_loader import LoadRequest, load_log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record.record_batch import assign_offset, read_header

_MIB = 1024 * 1024
_LOG_SIZES_MB = (1, 10, 100, 1_000, 10_000)
_APPENDS = 1_000


def recovery(partitions: int = 100, size_bytes: int = 1024 * _MIB) -> Load:
    """From starting a broker that was killed to its first answer; mixed batches of 1 and 16 KiB and
    1 MiB, and then 1 KiB alone.
    """

    def load(_: RunningBroker) -> Figures:
        figures = {}
        for name, sizes in (("mixed", (1024, 16_384, _MIB)), ("1_kib", (1024,))):
            with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
                with broker_on(home) as broker:
                    raw_client.create_topic(broker.address, "wide", partitions)
                    broker.process.kill()
                    broker.process.wait()
                for number in range(partitions):
                    path = Path(home, f"wide-{number}", f"{0:020d}.log")
                    path.write_bytes(_log_of(size_bytes // partitions, sizes))
                with broker_on(home) as broker:
                    figures[f"recovery_{name}_s"] = time.perf_counter() - broker.started_at
        return figures

    return load


def opening(partitions: int) -> Load:
    """Stop and start of a broker with that many partitions, a batch in every second of them."""

    def load(_: RunningBroker) -> Figures:
        with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
            with broker_on(home) as broker:
                raw_client.create_topic(broker.address, "wide", partitions)
                client = raw_client.RawClient(broker.address)
                batch = raw_client.batch_of(1_000)
                for number in range(0, partitions, 2):
                    client.send(raw_client.produce_frame("wide", batch, 1, number))
                    raw_client.produced(client.receive())
                client.close()
                begun = time.perf_counter()
                broker.process.terminate()
                broker.process.wait(120)
                stop_s = time.perf_counter() - begun
            with broker_on(home) as broker:
                figures = {
                    f"start_{partitions}_s": time.perf_counter() - broker.started_at,
                    f"stop_{partitions}_s": stop_s,
                    f"rss_{partitions}_mb": broker.rss_mib() * _MIB / 1e6,
                }
                raw_client.create_topic(broker.address, "wide", partitions)  # asks for metadata
                figures[f"rss_{partitions}_told_mb"] = broker.rss_mib() * _MIB / 1e6
                return figures

    return load


def growing_log() -> Load:
    """Microseconds for the append of one 16 KiB batch to a log of each size, and for a fetch of
    1 MiB at any offset of the largest: cold, checked for the first time, and again.
    """

    def load(_: RunningBroker) -> Figures:
        with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
            log = _open(home)
            filler, batch = (bytearray(raw_client.batch_of(size)) for size in (_MIB, 16_384))
            figures = {}
            for size_mb in _LOG_SIZES_MB:
                while log.segments.size_bytes < size_mb * 1_000_000 - _APPENDS * len(batch):
                    _append(log, filler)
                log.flush()  # else a slow disk makes the process wait that has written most
                figures[f"append_at_{size_mb}_mb_us"] = _timed_appends(log, batch)
            log.flush()
            log.close()
            for segment in log.segments:
                _forget_cache(segment.records.path)
            figures.update(_timed_reads(_open(home, log.log_end_offset)))
            return figures

    return load


@contextmanager
def broker_on(directory: str) -> Iterator[RunningBroker]:
    """A kbroker on a data directory that stays; ready when it says so."""
    port = apache_kafka.free_port()
    command = [
        sys.executable, "-m", "kbroker.cli", "start",
        "--listen", f"127.0.0.1:{port}", "--data", directory,
    ]  # fmt: skip
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        if not process.stdout.readline().startswith(b"listening"):
            raise RuntimeError("the broker did not start")
        yield RunningBroker("kbroker", f"127.0.0.1:{port}", process, begun)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)


def _log_of(size_bytes: int, batch_sizes: tuple[int, ...]) -> bytearray:
    """Batches up to that size; each of the sizes has the same share of the bytes."""
    batches = [bytearray(raw_client.batch_of(size, min(size - 80, 1_000))) for size in batch_sizes]
    spent = [0] * len(batches)
    content = bytearray()
    offset = 0
    while len(content) < size_bytes:
        index = spent.index(min(spent))
        batch = batches[index]
        assign_offset(batch, 0, offset, 0)
        offset += read_header(batch).last_offset_delta + 1
        spent[index] += len(batch)
        content += batch
    return content


def _open(home: str, recovery_point: int = 0) -> Log:
    settings: dict[str, Any] = {"max_message_bytes": 2 * _MIB}
    request = LoadRequest(
        topic_partition=TopicPartition("large", 0),
        directory=home,
        config=TopicConfig(**settings),
        now_ms=int(time.time() * 1000),
        recovery_point=recovery_point,
        was_clean=True,
    )
    return load_log(request, LogEnvironment(file_system=RealFileSystem()))


def _append(log: Log, batch: bytearray) -> None:
    assign_offset(batch, 0, 0, -1)  # as a producer sends it
    log.append_as_leader(batch, 0, int(time.time() * 1000))


def _timed_appends(log: Log, batch: bytearray) -> float:
    """Median in microseconds."""
    times = []
    for _ in range(_APPENDS):
        begun = time.perf_counter()
        _append(log, batch)
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def _timed_reads(log: Log) -> Figures:
    rnd = random.Random(1)
    offsets = [rnd.randrange(log.log_end_offset) for _ in range(200)]
    figures = {}
    for name in ("cold_first", "warm_again"):
        times = []
        for offset in offsets:
            begun = time.perf_counter()
            log.read(offset, _MIB, FetchIsolation.LOG_END, True).records.read()
            times.append(time.perf_counter() - begun)
        figures[f"read_1_mib_{name}_us"] = statistics.median(times) * 1e6
    return figures


def _forget_cache(path: str) -> None:
    """Have the system drop its cached pages of a file that is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


ROWS: list[tuple[str, Load]] = [
    ("recovery of 1 GiB in 100 partitions", recovery()),
    ("5,000 partitions", opening(5_000)),
    ("10,000 partitions", opening(10_000)),
    ("a log of 1 MB to 10 GB", growing_log()),
]
