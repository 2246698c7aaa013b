"""The example of a cluster runs, serves replicated topics, has its brokers started again one by one,
and leaves nothing behind that runs.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from compat_tests.commands.command_line import FINE, HEEDING, ITEM_FAILED, run
from compat_tests.running.apache_kafka import free_port
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import java_command
from tests.docs.terminals import environment, what_may_be_missing

INTERNAL = ("__consumer_offsets", "__transaction_state")
THREE_BROKERS = Path(__file__).resolve().parents[2] / "examples" / "three-brokers"


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.java
@pytest.mark.timeout(120)
def test_three_brokers_and_a_zookeeper_start_serve_and_stop(tmp_path: Path) -> None:
    with what_may_be_missing():
        java_command("", ())
    ports = " ".join(str(free_port()) for _ in range(3))
    settings = environment(PORTS=ports, ZOOKEEPER_PORT=str(free_port()))
    example = subprocess.Popen(
        [*HEEDING, "sh", str(THREE_BROKERS), "here"],
        cwd=tmp_path,
        env=settings,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert example.stdout is not None
        said = example.stdout.readline()
        pids = [int(path.read_text()) for path in sorted((tmp_path / "here").glob("broker-*.pid"))]
        bootstrap = said.partition("listen on ")[2].partition(" ")[0]
        made = run("topic", "create", "orders", "--replication-factor", "3", bootstrap=bootstrap)
        sent = run("produce", "orders", stdin="desk\n", bootstrap=bootstrap)
        for kind in ("group", "txn"):  # who asks for a coordinator has its topic made
            run(kind, "describe", "billing", bootstrap=bootstrap)
        kept = run("topic", "describe", *INTERNAL, "--output", "jsonl", bootstrap=bootstrap)
        status = run("cluster", "status", "--output", "csv", bootstrap=bootstrap)
        read = run("consume", "orders", bootstrap=bootstrap)
        os.kill(pids[0], signal.SIGTERM)
        came_back = until(lambda: _said_by_broker_1(tmp_path / "here", settings))
    finally:
        example.send_signal(signal.SIGINT)
        example.communicate(timeout=60)

    assert said.startswith("brokers 1 to 3 listen on ")
    assert (made.code, sent.code) == (FINE, FINE)
    replicas = [(row["topic"], sorted(row["replicas"])) for row in map(json.loads, kept.lines())]
    assert {topic for topic, _ in replicas} == set(INTERNAL)
    assert all(brokers == [1, 2, 3] for _, brokers in replicas)
    assert [line.split(",")[:2] for line in status.lines()[1:]] == [
        [str(number), "online"] for number in (1, 2, 3)
    ]
    assert "0 under-replicated" in status.err
    assert read.lines() == ["desk"]
    assert came_back == f"listening on 127.0.0.1:{ports.partition(' ')[0]}\n"
    assert example.returncode == FINE
    assert len(pids) == 3
    assert [pid for pid in pids if is_running(pid)] == []


def without_java(tmp_path: Path, program: str) -> dict[str, str]:
    """The environment with a `java` that does no more than a shell does for this program."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{program}\n")
    java.chmod(0o755)
    plain = environment(ZOOKEEPER_PORT=str(free_port()))
    return {**plain, "PATH": f"{java.parent}:{plain['PATH']}", "PORTS": str(free_port())}


def three_brokers(folder: Path, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the script with its data below a folder, until it ends by itself."""
    return subprocess.run(
        ["sh", str(THREE_BROKERS), "here"],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_broker_joins_the_zookeeper_of_somebody_else(tmp_path: Path) -> None:
    settings = without_java(tmp_path, "exec sleep 600")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = three_brokers(tmp_path, {**settings, "ZOOKEEPER_PORT": port})

    assert done.returncode == ITEM_FAILED
    assert done.stderr.startswith(f"Error: ZooKeeper cannot listen on 127.0.0.1:{port}: stop what ")
    assert not (tmp_path / "here").exists()


def test_a_zookeeper_that_does_not_start_is_not_waited_for(tmp_path: Path) -> None:
    done = three_brokers(tmp_path, without_java(tmp_path, "echo no such class; exit 1"))

    log = tmp_path / "here" / "zookeeper.log"
    assert done.returncode == ITEM_FAILED
    assert done.stderr == f"Error: ZooKeeper did not start: see {log}\n"
    assert log.read_text() == "no such class\n"


def test_a_broker_that_does_not_start_is_told_with_its_own_sentence(tmp_path: Path) -> None:
    settings = without_java(tmp_path, "exec sleep 600")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = three_brokers(tmp_path, {**settings, "PORTS": port})

    log = tmp_path / "here" / "broker-1.log"
    assert done.returncode == ITEM_FAILED
    assert done.stderr.startswith(
        f"Error: broker 1 did not start: listeners: cannot listen on 127.0.0.1:{port}: "
    )
    assert done.stderr.endswith(f" (its log is {log})\n")


def _said_by_broker_1(folder: Path, settings: dict[str, str]) -> str:
    """Start and stop it: its first line, none while the one before it still ends."""
    again = subprocess.Popen(
        [*HEEDING, "kbroker", "start", str(folder / "broker-1.properties")],
        env=settings,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert again.stdout is not None
    said = again.stdout.readline()
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=60)
    return said
