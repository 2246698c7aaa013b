"""The short form of the hunt in `internal_log_damage`."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.faults.internal_log_damage import hunt


def test_damage_costs_a_coordinator_no_more_than_the_batches_it_hit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        counts, failures, _ = hunt(tmp_path, logs=50, seed=40)

    assert failures == []
    assert {verdict for _, verdict in counts} == {"nothing lost", "lost what was hit", "cut"}
