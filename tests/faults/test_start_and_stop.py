"""Starts and stops that go wrong, or are asked for at a bad moment."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.protocol.codec import encode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from tests.faults.running_broker import RunningBroker, frame, read_answer

MakeBroker = Callable[..., RunningBroker]

RECOVERING = "RECOVERING_FROM_UNCLEAN_SHUTDOWN"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
IDLE_STOP_S = 2.0  # half a second on a machine of one's own


def test_a_new_directory_needs_no_recovery(make_broker: MakeBroker) -> None:
    broker = make_broker().start()

    assert broker.stop() == 0
    assert RECOVERING not in broker.said()


def test_after_a_kill_the_logs_are_recovered_and_after_a_stop_they_are_not(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker().start()
    broker.kill()
    broker.start()
    recoveries = broker.said().count(RECOVERING)
    assert recoveries > 0

    assert broker.stop() == 0
    assert (broker.data / CLEAN_SHUTDOWN).exists()
    broker.start()

    assert broker.said().count(RECOVERING) == recoveries


def test_an_idle_broker_stops_soon_also_when_asked_twice(make_broker: MakeBroker) -> None:
    broker = make_broker().start()
    assert broker.process is not None
    began_s = time.monotonic()

    broker.process.send_signal(signal.SIGINT)

    assert broker.stop(signal.SIGINT) == 0
    assert time.monotonic() - began_s < IDLE_STOP_S
    assert "Traceback" not in broker.said()


def test_a_stop_during_the_start_leaves_a_directory_that_can_be_started(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    process = broker.spawn()
    while not (broker.data / ".lock").exists():
        time.sleep(0.002)

    assert broker.stop() == 0
    assert process.returncode == 0
    broker.start().assert_serves()
    assert "Traceback" not in broker.said()


@pytest.mark.parametrize(("held", "serves"), [(subprocess.PIPE, True), (subprocess.DEVNULL, False)])
def test_a_broker_may_end_with_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, serves: bool
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-m", "kbroker.cli", "start", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--stop-at-eof"], stdin=held, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on ") == serves
        if process.stdin is not None:
            process.stdin.close()

        assert process.wait(20) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_a_file_is_refused_in_one_sentence(make_broker: MakeBroker) -> None:
    broker = make_broker()
    Path(broker.data).write_text("")

    process = broker.spawn()

    assert process.wait(20) == 1
    *_, last, place = broker.said().splitlines()
    assert last.startswith(f"Error: Data directory {broker.data} cannot be used")
    assert place == "See kbroker help directory-unusable"
    assert "Traceback" not in broker.said()


def test_the_limit_of_open_files_is_raised_as_far_as_allowed(make_broker: MakeBroker) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    broker = make_broker(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)))
    broker.start()

    assert broker.process is not None
    limits = Path(f"/proc/{broker.process.pid}/limits").read_text()
    soft = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    assert soft.split()[3] == soft.split()[4]


def test_running_out_of_descriptors_passes_and_takes_no_data_directory_offline(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    broker.start()
    assert "may open only 64 files" in broker.said()
    early = broker.connect()
    flood = [broker.connect() for _ in range(80)]
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    early.sendall(frame(19, 2, encode(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 2)))
    assert read_answer(early)

    for connection in flood:
        connection.close()
    time.sleep(1.2)  # an acceptor without descriptors rests for a second

    broker.assert_serves()
    assert "offline" not in broker.said()
    early.close()
    assert broker.stop() == 0
