"""`kbroker pipeline archive` as a process: killed with -9 and run again, every record is there once.

The long form, with millions of records and random moments, is `compat_tests/pipeline/rounds.py`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from compat_tests.clients import create_topic
from kbroker.pipeline.archive.manifests.archive_state import read_archive

RECORDS = 2_000
QUICK_JAVA = "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def command(bootstrap: str, topic: str, folder: Path, batch_records: int) -> list[str]:
    return [
        sys.executable, "-m", "kbroker.cli", "pipeline", "archive", "--bootstrap", bootstrap,
        "--topics", topic, "--to", str(folder / "archive"), "--checkpoint", str(folder / "c"),
        "--once", "--batch-records", str(batch_records), "--master", "local[2]", "--spark-conf", QUICK_JAVA,
        "--spark-conf", "spark.driver.memory=1g",
    ]  # fmt: skip


def manifests(folder: Path) -> int:
    return len(list((folder / "archive" / "manifests").glob("*.json")))


@pytest.mark.timeout(300)  # two Java processes of its own
def test_a_run_killed_with_9_is_finished_by_the_next_one(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, value=b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0

    killed = subprocess.Popen(command(bootstrap, topic, tmp_path, 250), stderr=subprocess.PIPE)
    while manifests(tmp_path) < 2 and killed.poll() is None:
        time.sleep(0.01)
    killed.kill()
    _, said = killed.communicate()
    done_before = manifests(tmp_path)
    again = subprocess.run(
        command(bootstrap, topic, tmp_path, RECORDS), capture_output=True, text=True, check=False
    )

    assert killed.returncode == -9, said
    assert 2 <= done_before < RECORDS // 250
    assert again.returncode == 0, again.stderr
    assert archived_values(tmp_path) == sorted(range(RECORDS))
    assert not [path for path in (tmp_path / "archive" / "staging").iterdir() if path.is_dir()]


def archived_values(folder: Path) -> list[int]:
    state: Any = read_archive(str(folder / "archive"))
    tables = [pq.read_table(f"{state.path}/{entry.path}") for entry in state.entries()]
    return sorted(int(value) for table in tables for value in table["value"].to_pylist())
