from __future__ import annotations

from pathlib import Path

from tests.faults.verify_injuries import hunt


def test_injuries_to_records_and_snapshots_are_all_found(tmp_path: Path) -> None:
    outcome = hunt(tmp_path, rounds=250, seed=20261121)

    assert sum(outcome.injuries.values()) > 200
    assert outcome.missed_in(".log") == []
    assert outcome.missed_in(".snapshot") == []
    assert len(outcome.missed) <= 0.1 * sum(outcome.injuries.values())
