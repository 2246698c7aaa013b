"""The short form of the hunt in `bit_flips`."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.faults.bit_flips import hunt


def test_a_flipped_bit_costs_no_more_than_the_batch_it_hit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        counts, failures, _ = hunt(tmp_path, flips=150, seed=20)

    assert failures == []
    assert len({kind for kind, _ in counts}) >= 8
