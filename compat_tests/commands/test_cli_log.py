"""`kbroker log` beside a running broker, after a clean stop and after a kill: it finds nothing
wrong with what the broker wrote, and changes nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.clients.every_client import create_topic, samples
from compat_tests.commands.command_line import FINE, ITEM_FAILED, Done, run
from compat_tests.conftest import BrokerProcess

SETTINGS = (
    "--override", "log.segment.bytes=20000", "--override", "log.index.interval.bytes=500",
)  # fmt: skip


def write(bootstrap: str, topic: str, count: int, **settings: object) -> None:
    common = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.size": 4_000}
    producer = Producer({**common, **settings})
    failures: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    for sample in samples(count):
        producer.produce(
            topic,
            sample.value,
            sample.key,
            timestamp=sample.timestamp_ms,
            headers=list(sample.headers),
            on_delivery=delivered,
        )
        producer.poll(0)
    assert (producer.flush(30), failures) == (0, [])


def fill(broker: BrokerProcess) -> None:
    for codec in ("none", "gzip", "lz4"):
        create_topic(broker.bootstrap, f"codec-{codec}", 2)
        write(broker.bootstrap, f"codec-{codec}", 500, **{"compression.type": codec})
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["codec-none"])
    assert consumer.consume(100, 20)
    consumer.commit(asynchronous=False)
    consumer.close()


def verify(data: Path) -> Done:
    return run("log", "verify", str(data), "--deep", "--strict")


def state(data: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in [data, *data.rglob("*")]
    }


@pytest.fixture
def broker(own_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return own_broker(*SETTINGS)


def test_what_a_broker_writes_is_sound_while_it_runs_and_afterwards(broker: BrokerProcess) -> None:
    fill(broker)

    running = verify(broker.data)
    broker.stop(signal.SIGKILL)
    killed = verify(broker.data)
    broker.start()
    broker.stop()
    before = state(broker.data)
    stopped = verify(broker.data)

    assert (running.out, killed.out, stopped.out) == ("", "", "")
    assert (running.code, killed.code, stopped.code) == (FINE, FINE, FINE)
    assert state(broker.data) == before


def test_nothing_is_wrong_while_producers_write(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "busy", 3)
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.is_set():
            write(broker.bootstrap, "busy", 200)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        seen = [verify(broker.data) for _ in range(5)]
    finally:
        stop.set()
        writer.join()

    assert [(done.code, done.out) for done in seen] == [(FINE, "")] * 5
    assert "batches" in seen[-1].err


def test_a_cut_segment_is_an_error_with_its_place(broker: BrokerProcess) -> None:
    fill(broker)
    broker.stop()
    segment = max((broker.data / "codec-none-0").glob("*.log"), key=lambda p: p.stat().st_size)
    os.truncate(segment, segment.stat().st_size - 3)

    done = run("log", "verify", str(broker.data))

    assert done.code == ITEM_FAILED
    assert f"error: {segment} (position " in done.out
    assert "lacks its last 3" in done.out


def test_records_and_statistics_are_shown_beside_a_running_broker(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "shown", 1)
    write(broker.bootstrap, "shown", 100)

    consumed = run("consume", "shown", "--output", "jsonl", bootstrap=broker.bootstrap)
    dumped = run(
        "log", "dump", str(broker.data), "--topic", "shown", "--records", "--output", "jsonl"
    )
    counted = run("log", "stats", str(broker.data), "--topic", "shown", "--output", "json")

    assert (dumped.code, dumped.out) == (FINE, consumed.out)
    assert json.loads(counted.out)[0]["records"] == 100


def test_a_directory_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    closed = tmp_path / "t-0"
    closed.mkdir()
    closed.chmod(0)

    assert "Permission denied" in run("log", "verify", str(closed)).refused(ITEM_FAILED)


def test_a_reader_that_goes_ends_the_dump_quietly(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "long", 1)
    write(broker.bootstrap, "long", 5_000)

    done = subprocess.run(
        f"{sys.executable} -m kbroker.cli log dump {broker.data}/long-0 --records | head -n 3",
        shell=True,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (len(done.stdout.splitlines()), done.stderr) == (3, "")
