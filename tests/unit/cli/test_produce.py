"""How `kbroker produce` ends when records cannot be delivered."""

from __future__ import annotations

from types import SimpleNamespace

import kafka
import pytest
from click.testing import CliRunner
from kafka.errors import KafkaTimeoutError

from kbroker.cli.produce import produce
from kbroker.client import connection


class StuckProducer:
    """Keeps records for ever, until its sender is told to give them up."""

    def __init__(self) -> None:
        self.is_given_up = False
        self.is_closed = False
        self._sender = SimpleNamespace(force_close=self._give_up)

    def partitions_for(self, topic: str) -> set[int]:
        return {0}

    def flush(self, timeout: float | None = None) -> None:
        assert timeout is not None or self.is_given_up, "it would wait for ever"
        if not self.is_given_up:
            raise KafkaTimeoutError("records wait")

    def close(self) -> None:
        self.flush()
        self.is_closed = True

    def _give_up(self) -> None:
        self.is_given_up = True


def run_with(producer: StuckProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "KafkaProducer", lambda **_settings: producer)
    monkeypatch.setattr(connection, "check_reachable", lambda _bootstrap: None)

    result = CliRunner().invoke(produce, ["t"], input="", standalone_mode=False)

    assert result.exception is None


def test_records_that_the_library_keeps_for_ever_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer = StuckProducer()

    run_with(producer, monkeypatch)

    assert producer.is_given_up
    assert producer.is_closed


def test_records_that_are_delivered_are_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = StuckProducer()
    producer.flush = lambda timeout=None: None  # type: ignore[method-assign]

    run_with(producer, monkeypatch)

    assert not producer.is_given_up
    assert producer.is_closed
