from __future__ import annotations

from pathlib import Path

from tests.integration import log_source_hunt
from tests.integration.log_source_hunt import COMPACTED, RETAINED


def test_a_directory_is_read_right_while_cleaner_retention_and_restarts_are_at_work(
    tmp_path: Path,
) -> None:
    met = (COMPACTED, RETAINED, "holes", "streamed")

    counts = log_source_hunt.hunt(tmp_path, seconds=6, seed=1, restart_every_s=1.5, until_met=met)

    assert counts["restarts"] > 0
