from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.hostile_orders import IN_A_CLUSTER, run

ROUNDS = 600


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("options", [(), IN_A_CLUSTER], ids=["alone", "member"])
def test_nothing_that_anybody_orders_breaks_a_broker(
    tmp_path: Path, seed: int, options: tuple[str, ...]
) -> None:
    answered = run(tmp_path, seed, ROUNDS, *options)

    assert answered > ROUNDS // 2
