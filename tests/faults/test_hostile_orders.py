from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.hostile_orders import run

ROUNDS = 600


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_that_anybody_orders_breaks_a_broker(tmp_path: Path, seed: int) -> None:
    answered = run(tmp_path, seed, ROUNDS)

    assert answered > ROUNDS // 2
