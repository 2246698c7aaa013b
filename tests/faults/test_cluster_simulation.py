"""The short form of the hunt in simulated clusters: see cluster_simulation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.cluster_bugs import FIRST_SEEDS, PLANTED, Mistake
from tests.faults.cluster_simulation import hunt

SEEDS = range(1, 41)
ENOUGH_SEEDS = 200


def test_clusters_keep_their_promises_and_come_to_rest_in_order() -> None:
    outcome = hunt(SEEDS)

    assert outcome.violations == []
    counts = outcome.counts
    assert counts["kills"] > 50, "too little went wrong to prove anything"
    assert counts["expiries"] > 50
    assert counts["reigns"] > 100
    assert counts["appended"] > 300
    assert counts["wishes fulfilled"] > 100


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_bug_is_found(mistake: Mistake) -> None:
    with mistake():
        first = FIRST_SEEDS.get(mistake, 1)
        outcome = hunt(range(first, first + ENOUGH_SEEDS), stops=True)

    kinds = {violation.kind for _, violation in outcome.violations}
    assert kinds & PLANTED[mistake], f"{outcome.seeds} seeds found only {kinds}"


def test_a_seed_lives_the_same_history_in_every_process() -> None:
    said = {_line_of(hash_seed) for hash_seed in ("1", "2")}

    assert len(said) == 1


def _line_of(hash_seed: str) -> str:
    """Return the result line of eight histories, without the seconds they took."""
    command = [sys.executable, "-m", "tests.faults.cluster_simulation", "--seeds", "1-8"]
    root = Path(__file__).resolve().parent.parent.parent
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    output = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=True
    ).stdout
    seeds, _, counts = output.splitlines()[-1].partition(" s, ")
    return seeds.rpartition(" h in ")[0] + counts
