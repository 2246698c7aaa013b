"""The pipeline's jobs that write, as commands of their own beside two brokers of one kind: archives
restored, topics mirrored, topics watched by rules.

Records have 1,000 bytes of random text and lie in 4 partitions; one archive of them serves all
rounds and brokers. Jobs write as they do by themselves, in lz4. CPU is that of all processes of the job, and of
the brokers it speaks with. Apache Kafka has no way to restore an archive as a data directory: in
that load its own producer writes as many records of that size into its broker.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import pipeline_rules, processes, raw_client
from benchmarks.filled_topics import fill, random_records
from benchmarks.loads import Figures, producer_tool
from benchmarks.processes import RunningBroker
from benchmarks.timed_command import Took, timed_command
from compat_tests.running.apache_kafka import java_command
from examples.rules.run import kbroker

RECORDS = 200_000

_TOPIC = "orders"
_PARTITIONS = 4
_RECORD_BYTES = 1_000
_MILLION = 1e6
_STARTS = {"kbroker": processes.kbroker, "apache": processes.apache}


@dataclass(frozen=True)
class TwoBrokers:
    """Clusters of one broker each; `source` is what a mirror copies from."""

    source: RunningBroker
    target: RunningBroker

    def cpu_s(self) -> float:
        """User and system time of both so far, in seconds."""
        return self.source.cpu_s() + self.target.cpu_s()


@contextmanager
def running(kind: str) -> Iterator[TwoBrokers]:
    """Two new ones, of `kbroker` or `apache`."""
    with ExitStack() as stack:
        yield TwoBrokers(*(stack.enter_context(_STARTS[kind]()) for _ in range(2)))


def loads(records: int = RECORDS) -> Sequence[tuple[str, Any]]:
    """All of them, in the order in which they run: a mirror copies what was restored."""
    rules = (
        (f"rules: {name}", pipeline_rules.rules(name, records)) for name in pipeline_rules.EXAMPLES
    )
    return [
        ("restore into topics", functools.partial(restore_into_topics, records)),
        ("restore as a data directory", functools.partial(restore_as_directory, records)),
        ("mirror", functools.partial(mirror, records)),
        *((name, lambda brokers, load=load: load(brokers.source)) for name, load in rules),
    ]


def restore_into_topics(records: int, brokers: TwoBrokers) -> Figures:
    """`kbroker pipeline restore --bootstrap`, in one process without Java."""
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
        cpu_s = brokers.source.cpu_s()
        took = _pipeline(
            "restore", "--archive", str(_archive(records)),
            "--bootstrap", brokers.source.bootstrap, "--checkpoint", f"{home}/checkpoint",
        )  # fmt: skip
    return _figures(records, took, brokers.source.cpu_s() - cpu_s)


def restore_as_directory(records: int, brokers: TwoBrokers) -> Figures:
    """`kbroker pipeline restore --data`, and what it takes to read the archive alone."""
    if brokers.source.name == "apache":
        return _produced(records, brokers.source)
    archive = _archive(records)
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
        took = _pipeline(
            "restore", "--archive", str(archive), "--data", f"{home}/data",
            "--checkpoint", f"{home}/checkpoint",
        )  # fmt: skip
    return _figures(records, took, 0.0) | {"reading_cpu_s_per_million": _read_cpu_s(archive)}


def mirror(records: int, brokers: TwoBrokers) -> Figures:
    """`kbroker pipeline mirror --once` of the restored topic, in one process without Java."""
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
        cpu_s = brokers.cpu_s()
        took = _pipeline(
            "mirror", "--from", brokers.source.bootstrap, "--bootstrap", brokers.target.bootstrap,
            "--topics", _TOPIC, "--checkpoint", f"{home}/checkpoint", "--once",
        )  # fmt: skip
    return _figures(records, took, brokers.cpu_s() - cpu_s)


def _produced(records: int, broker: RunningBroker) -> Figures:
    raw_client.create_topic(broker.address, "produced", _PARTITIONS)
    cpu_s = broker.cpu_s()
    tool = producer_tool(broker.bootstrap, "produced", records, _RECORD_BYTES)
    took = timed_command(java_command(*tool, heap="512m"))
    return _figures(records, took, broker.cpu_s() - cpu_s)


def _pipeline(*arguments: str) -> Took:
    return timed_command(kbroker("pipeline", *arguments))


def _figures(records: int, took: Took, broker_cpu_s: float) -> Figures:
    return {
        "records_per_s": records / took.seconds,
        "job_cpu_s_per_million": took.cpu_s / records * _MILLION,
        "broker_cpu_s_per_million": broker_cpu_s / records * _MILLION,
    }


@functools.cache
def _archive(records: int) -> Path:
    """An archive of so many records, made once per run."""
    home = Path(tempfile.mkdtemp(prefix="kbroker-bench-archive-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    with processes.kbroker() as broker:
        fill(broker, _TOPIC, _PARTITIONS, random_records(records, _RECORD_BYTES, _PARTITIONS))
        _pipeline(
            "archive", "--bootstrap", broker.bootstrap, "--topics", _TOPIC,
            "--to", str(home / "archive"), "--checkpoint", str(home / "checkpoint"), "--once",
        )  # fmt: skip
    return home / "archive"


def _read_cpu_s(archive: Path) -> float:
    """CPU of this process for a million records, read by rising offset as a restore reads them."""
    from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
    from kbroker.pipeline.archiving.ordered.ordered_reading import ordered_rows

    state = read_archive(str(archive))
    begun_s, rows = time.process_time(), 0
    for partition in state.partitions():
        rows += sum(
            batch.num_rows for batch in ordered_rows(str(archive), state.entries(partition))
        )
    return (time.process_time() - begun_s) / rows * _MILLION
