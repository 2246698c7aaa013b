"""Kafka's own performance tools and kcat, with brokers that two runs have warmed."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import raw_client
from benchmarks.loads import Figures, producer_performance
from benchmarks.preparations import new_topic
from benchmarks.processes import RunningBroker
from benchmarks.request_loads import Effort, Measure
from benchmarks.timed_command import timed_command
from compat_tests.running import apache_kafka
from compat_tests.running.prerequisites import require_program

RECORDS = 500_000  # of a round, and of each of two that warm
_LINE = "x" * 99 + "\n"

Run = Callable[[RunningBroker, str, int], float]  # broker, topic, records: records a second


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLoad:
    """A client whose records a second count, and the CPU of the broker for each of them."""

    name: str
    run: Run
    record_bytes: int = 0  # of the topic that a consumer reads; 0: it produces
    program: str = "java"  # on PATH
    disk_bytes: int = 0  # that it is said to need; a topic of a gigabyte at each broker is little

    @contextmanager
    def prepared(self, broker: RunningBroker, effort: Effort) -> Iterator[Measure]:
        """A topic, and two runs, after which the broker is warm."""
        require_program(self.program, f"install {self.program}")
        topic, records = new_topic(broker), effort.part_of(RECORDS)
        if self.record_bytes:
            producer_performance(broker.bootstrap, topic, records, self.record_bytes)
        for _ in range(2):
            self.run(broker, topic, records)

        def measure() -> Figures:
            cpu_s = broker.cpu_s()
            rate = self.run(broker, topic, records)
            cpu_s = broker.cpu_s() - cpu_s
            return {"cpu_us_per_record": cpu_s / records * 1e6, "records_per_s": rate}

        yield measure
        raw_client.delete_topics(broker.address, [topic])


def _java_producer(broker: RunningBroker, topic: str, records: int) -> float:
    return producer_performance(broker.bootstrap, topic, records, 1_000)


def _java_consumer(broker: RunningBroker, topic: str, records: int) -> float:
    return consumer_performance(broker.bootstrap, topic, records)


def consumer_performance(bootstrap: str, topic: str, records: int, *more: str) -> float:
    """Kafka's own ConsumerPerformance: the records/s that it reports. `more`: further options."""
    done = apache_kafka.run_tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        "--topic", topic, "--num-records", str(records), "--bootstrap-server", bootstrap,
        "--group", f"perf-{time.monotonic_ns()}", "--timeout", "60000", *more,
        timeout_s=600,
    )  # fmt: skip
    cells = done.stdout.strip().splitlines()[-1].split(",")
    if len(cells) < 10 or not re.fullmatch(r" ?[\d.]+", cells[5]):
        raise RuntimeError(
            f"no figure from ConsumerPerformance: {done.stdout[-300:]}{done.stderr[-600:]}"
        )
    return float(cells[5])


def _kcat_producer(broker: RunningBroker, topic: str, records: int) -> float:
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
        lines = Path(home, "lines")
        lines.write_text(_LINE * records)
        command = ["kcat", "-b", broker.bootstrap, "-t", topic, "-P", "-X", "acks=all"]
        return records / timed_command(command, source=lines).seconds


def _kcat_consumer(broker: RunningBroker, topic: str, records: int) -> float:
    command = ["kcat", "-b", broker.bootstrap, "-t", topic, "-C", "-q", "-c", str(records)]
    return records / timed_command([*command, "-o", "beginning"]).seconds


LOADS = [
    ClientLoad(name="java producer, 1 KB, acks=all", run=_java_producer),
    ClientLoad(name="java consumer, 1 KB", run=_java_consumer, record_bytes=1_000),
    ClientLoad(name="kcat producer, 100 B, acks=all", run=_kcat_producer, program="kcat"),
    ClientLoad(name="kcat consumer, 100 B", run=_kcat_consumer, record_bytes=100, program="kcat"),
]
