"""A sync that fails is never acknowledged over; the long form is `tests.faults.fsync_errors`."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log_flush import LogFlush
from kbroker.log.partition.log_state import PendingFlush
from tests.faults import fsync_errors

ROUNDS = 60


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_nothing_is_acknowledged_over_a_failed_sync() -> None:
    outcome = fsync_errors.run(ROUNDS)

    assert outcome.findings == []
    assert outcome.acknowledged > 1_000
    assert sum(outcome.struck.values()) > 50
    assert len(outcome.struck) > 6


def is_found() -> bool:
    return any(fsync_errors.run(1, seed).findings for seed in range(ROUNDS))


def test_the_rounds_find_a_broker_that_takes_a_failed_sync_for_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sync(self: PendingFlush) -> None:
        for path in self.files:
            try:
                self.file_system.sync(path)
            except StorageError:
                continue

    monkeypatch.setattr(PendingFlush, "sync", sync)

    assert is_found()


def test_the_rounds_find_a_broker_that_tries_a_failed_sync_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failed(_flushes: LogFlush, _flush: PendingFlush, _error: StorageError) -> bool:
        return True

    monkeypatch.setattr(LogFlush, "failed", failed)

    assert is_found()
