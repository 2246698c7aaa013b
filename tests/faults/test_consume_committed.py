"""`kbroker consume` over a directory that Apache Kafka wrote: what transactions left there, as the
Java client reads it with either isolation level, and copies through a pipe.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.running_broker import RunningBroker
from tests.golden.golden_logs import files

TOPIC, COMMITTED, ALL = "txn", 53, 89  # records, as the Java client counted them


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    data = tmp_path / "data"
    for path, content in files("3.9.2-clean").items():
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_bytes(content)
    broker = RunningBroker(data, "--adopt", "--override", "log.retention.ms=-1").start()
    yield broker
    broker.end()


def test_only_committed_records_are_read_unless_told_otherwise(broker: RunningBroker) -> None:
    def consumed(*options: str) -> list[bytes]:
        return command(broker, "consume", TOPIC, "--format", "%p-%o\\n", *options).splitlines()

    committed, whole = consumed(), consumed("--isolation", "read_uncommitted")

    assert (len(committed), len(whole)) == (COMMITTED, ALL)
    assert set(committed) < set(whole)
    assert sorted(consumed("--group", "one")) == sorted(committed)
    rest = consumed("--group", "two", "--isolation", "read_uncommitted")
    assert sorted(rest) == sorted(whole)


def test_a_copy_through_a_pipe_has_what_was_committed(broker: RunningBroker) -> None:
    command(broker, "topic", "create", "copy")

    rows = command(broker, "consume", TOPIC, "--output", "jsonl")
    command(broker, "produce", "copy", "--input", "jsonl", stdin=rows)

    uncommitted = command(broker, "consume", "copy", "--isolation", "read_uncommitted")
    assert len(uncommitted.splitlines()) == COMMITTED


def command(broker: RunningBroker, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run a command, which has to succeed, and return what it printed."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "kbroker.cli",
            *arguments,
            "--bootstrap",
            f"127.0.0.1:{broker.port}",
        ],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
