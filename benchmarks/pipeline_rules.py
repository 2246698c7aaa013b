"""`kbroker pipeline rules` over events of the examples, which are in their topics when it begins.

The first batch is for Java's compiler. What is measured lies between its end and that of the last
one: no start of Spark, and no window that is ended by hand.
"""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.filled_topics import PlacedRecord, fill
from benchmarks.loads import Figures, Load
from benchmarks.processes import RunningBroker, tree_cpu_s
from examples.rules.events import Event
from examples.rules.run import HERE, kbroker, load_generator

EXAMPLES = ("phone-regions", "device-switches")  # a join with a table, and windows that overlap

_BATCHES = 4  # the first one warms Spark
_LOOK_S = 0.02
_PATIENCE_S = 600.0
_MILLION = 1e6


def rules(example: str, events: int) -> Load:
    """Catch up with the events. RuntimeError where a topic gets another number of records than the
    generator's truth says.
    """

    def load(broker: RunningBroker) -> Figures:
        generator = load_generator(example)
        written = _events(example, events)
        for topic, partitions in generator.TOPICS.items():
            fill(broker, topic, partitions, _records_of(written, topic))
        with tempfile.TemporaryDirectory(prefix="kbroker-bench-rules-") as home:
            figures = _measured(_Job(example, Path(home), broker, len(written) // _BATCHES))
        _check(broker, _truth(example, events))
        return figures

    return load


@functools.cache
def _events(example: str, count: int) -> list[Event]:
    """The rows of tables before all others: they are in their topics before the job begins."""
    generator = load_generator(example)
    tables = getattr(generator, "TABLES", ())
    return sorted(generator.events(1, count), key=lambda event: event.topic not in tables)


@functools.cache
def _truth(example: str, count: int) -> dict[str, int]:
    """Records by topic."""
    truth = load_generator(example).truth(_events(example, count))
    return {topic: len(records) for topic, records in truth.items()}


def _records_of(events: Sequence[Event], topic: str) -> list[PlacedRecord]:
    return [
        PlacedRecord(event.partition, event.key.encode(), event.value.encode())
        for event in events
        if event.topic == topic
    ]


@dataclass(frozen=True, slots=True)
class _Mark:
    """How things stood at the end of a batch: the clock, CPU so far, and rows so far."""

    at_s: float
    job_cpu_s: float
    broker_cpu_s: float
    rows: int


class _Job:
    """The command, to its end."""

    def __init__(self, example: str, home: Path, broker: RunningBroker, batch_records: int) -> None:
        self._metrics = home / "metrics.jsonl"
        self._said = home / "said"
        self._broker = broker
        self._begun_s = time.perf_counter()
        command = kbroker(
            "pipeline", "rules", str(HERE / example / "rules.toml"),
            "--bootstrap", broker.bootstrap,
            "--checkpoint", str(home / "checkpoint"), "--metrics", str(self._metrics),
            "--batch-records", str(batch_records), "--once", "--close-windows",
        )  # fmt: skip
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(command, stdout=said, stderr=said)

    def marks(self) -> list[_Mark]:
        """One for the end of each batch, and before them one for the start of the command."""
        found = [_Mark(self._begun_s, 0.0, 0.0, 0)]
        while self._process.poll() is None:
            lines = self._metrics.read_text().splitlines() if self._metrics.exists() else []
            if len(lines) >= len(found):
                rows = sum(json.loads(line)["rows"] for line in lines)
                cpu_s = tree_cpu_s(self._process.pid), self._broker.cpu_s()
                found.append(_Mark(time.perf_counter(), *cpu_s, rows))
            if time.perf_counter() - self._begun_s > _PATIENCE_S:
                self._process.terminate()
            time.sleep(_LOOK_S)
        if self._process.returncode != 0:
            raise RuntimeError(
                f"rules ended with {self._process.returncode}: {self._said.read_text()}"
            )
        return found


def _measured(job: _Job) -> Figures:
    start, warm, *_, last = job.marks()
    rows = last.rows - warm.rows
    return {
        "records_per_s": rows / (last.at_s - warm.at_s),
        "job_cpu_s_per_million": (last.job_cpu_s - warm.job_cpu_s) / rows * _MILLION,
        "broker_cpu_s_per_million": (last.broker_cpu_s - warm.broker_cpu_s) / rows * _MILLION,
        "first_batch_s": warm.at_s - start.at_s,
    }


def _check(broker: RunningBroker, truth: dict[str, int]) -> None:
    for topic, expected in truth.items():
        found = _committed_records(broker, topic)
        if found != expected:
            raise RuntimeError(f"{topic} has {found} records, and should have {expected}")


def _committed_records(broker: RunningBroker, topic: str) -> int:
    command = kbroker("consume", topic, "--bootstrap", broker.bootstrap)
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return done.stdout.count(b"\n")
