"""A caller may close the standard streams of a process, as `>&-` does and some supervisors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.fakes.running.forked_broker import Broker


def run_without(closed: Sequence[int], *command: str) -> subprocess.CompletedProcess[str]:
    """Run `kbroker` while a shell keeps these streams closed; the input is empty."""
    closing = " ".join(f"{number}>&-" for number in closed)
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, "-m", "kbroker.cli", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_broker_starts_and_stops_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: tuple[int, ...]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    done = run_without(closed, "start", "--listen", "127.0.0.1:0", "--stop-at-eof")

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_commands_print_nothing_into_a_closed_output_and_end_as_ever(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "d") as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        producer.send("orders", b"42").get(timeout=10)
        producer.close()
        reaching = ("--bootstrap", broker.bootstrap)
        for command in (
            ("topic", "list", *reaching),
            ("consume", "orders", *reaching),
            ("log", "dump", str(tmp_path / "d" / "orders-0")),
        ):
            done = run_without((1,), *command)
            assert (done.returncode, done.stderr) == (0, ""), command
        assert run_without((1, 2), "topic", "describe", "none", *reaching).returncode == 1
        refused = run_without((0,), "produce", "orders", *reaching)
        assert refused.returncode == 2
        assert "standard input is closed" in refused.stderr
