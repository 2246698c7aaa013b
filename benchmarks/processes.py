"""Brokers as processes of their own: started, measured through /proc, stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.running import apache_kafka

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED = 2  # as clock_getcpuclockid(3) makes the number of a process's clock


@dataclass(frozen=True)
class RunningBroker:
    """A broker process and its address."""

    name: str
    bootstrap: str
    process: subprocess.Popen[bytes]
    started_at: float  # time.perf_counter() just before the process was started
    data: Path | None = None  # its data directory, where a load may look into it
    ports: Mapping[str, int] = field(default_factory=dict)  # of further listeners, by their names

    @property
    def address(self) -> tuple[str, int]:
        """Host and port for a socket."""
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)

    def listener(self, name: str) -> tuple[str, int]:
        """Host and port of a further listener."""
        return self.address[0], self.ports[name]

    def cpu_s(self) -> float:
        """User and system time of all its threads so far, in seconds."""
        return cpu_s_of(self.process.pid)

    def rss_mib(self) -> float:
        """Resident memory, in MiB."""
        return rss_mib_of(self.process.pid)


def cpu_s_of(pid: int) -> float:
    """User and system time of all threads of a process so far, in seconds. The clock of a process has
    nanoseconds, where /proc counts ticks, and goes on counting threads that have ended.
    """
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def tree_cpu_s(pid: int) -> float:
    """User and system time so far of a process and of all those that it began, in seconds; of
    those that have ended, too, as far as they were waited for.
    """
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            children[int(fields[1])].append(int(path.parent.name))
            ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))
    found, left = 0, [pid]
    while left:
        each = left.pop()
        found += ticks.get(each, 0)
        left += children[each]
    return found / _TICKS_PER_S


def rss_mib_of(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


@contextmanager
def kbroker(*options: str, port: int = 0, checkout: Path | None = None) -> Iterator[RunningBroker]:
    """A kbroker of this checkout, or of another one; data in a temporary directory. `port` 0: a free
    one.
    """
    directory = tempfile.mkdtemp(prefix="kbroker-bench-")
    port = port or apache_kafka.free_port()
    command = [
        sys.executable, "-m", "kbroker.cli", "start",
        "--listen", f"127.0.0.1:{port}", "--data", f"{directory}/data", *options,
    ]  # fmt: skip
    started_at = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=checkout,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""},  # an installed broker has its byte code
    )
    try:
        apache_kafka.wait_for_port(port, process)
        bootstrap, data = f"127.0.0.1:{port}", Path(directory, "data")
        yield RunningBroker("kbroker", bootstrap, process, started_at, data)
    finally:
        process.kill()  # what it would sync as it stops is deleted here
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def apache(
    settings: Mapping[str, str] | None = None, listeners: dict[str, int] | None = None
) -> Iterator[RunningBroker]:
    """Apache Kafka's newest broker with its own defaults, but for these settings and ports of
    further listeners.
    """
    started_at = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="apache-bench-") as home:
        data = Path(home, "data")
        settings = {"log.dirs": str(data), **(settings or {})}
        with apache_kafka.broker(settings=settings, listeners=listeners, quick=False) as (
            bootstrap,
            process,
        ):
            yield RunningBroker("apache", bootstrap, process, started_at, data)
