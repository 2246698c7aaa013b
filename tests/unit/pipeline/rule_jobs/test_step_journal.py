"""Steps are there whole or not at all, and go when nothing needs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.rule_jobs.step_journal import BEGINNING, RowFiles, RulesStep, StepJournal
from kbroker.pipeline.rule_jobs.watermarks import PartitionTime


def published(journal: StepJournal, step: RulesStep, *folders: str) -> None:
    staging = journal.stage()
    for folder in folders:
        (staging / folder).mkdir()
        (staging / folder / "rows").write_text("rows")
    journal.publish(step)


def rows(step: int) -> RowFiles:
    return RowFiles(step=step, rows=1, min_us=0, max_us=9)


def test_a_step_comes_back_as_it_was_and_one_that_was_cut_short_does_not(tmp_path: Path) -> None:
    journal = StepJournal(tmp_path)
    step = RulesStep(
        number=0,
        batch=3,
        begun_us=5,
        ends={"t-0": 7},
        watermarks={"logs": 11},
        partitions={"logs": {"t-0": PartitionTime(12, 13)}},
        rows={"logs": (rows(0),)},
        tables={"totals": 0},
    )

    assert journal.latest() == BEGINNING
    published(journal, step)
    (journal.stage() / "rows-logs").mkdir()

    assert StepJournal(tmp_path).latest() == step
    assert sorted(journal.stage().iterdir()) == [journal.stage() / "outputs"]


def test_what_no_later_step_needs_is_removed(tmp_path: Path) -> None:
    journal = StepJournal(tmp_path)
    published(journal, RulesStep(number=0, batch=0), "rows-logs", "table-totals")
    published(journal, RulesStep(number=1, batch=1), "rows-logs")
    last = RulesStep(number=2, batch=2, rows={"logs": (rows(1),)}, tables={"totals": 2})
    published(journal, last, "table-totals", "rows-logs")
    journal.note_written(2)

    journal.prune(last)

    assert not journal.path(0).exists()
    assert journal.rows_path("logs", 1).is_dir()
    assert journal.table_path("totals", 2).is_dir()
    assert not journal.rows_path("logs", 2).exists()
    assert (journal.is_written(2), journal.is_written(1), journal.is_written(-1)) == (
        True,
        False,
        True,
    )


@pytest.mark.parametrize("bit", range(8))
def test_no_flipped_bit_makes_another_step(tmp_path: Path, bit: int) -> None:
    journal = StepJournal(tmp_path)
    step = RulesStep(number=0, batch=3, ends={"t-0": 7}, rows={"logs": (rows(0),)})
    published(journal, step)
    path = journal.path(0) / "step.json"
    content = path.read_bytes()
    refused = 0

    for place in range(len(content)):
        flipped = bytes([content[place] ^ 1 << bit])
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
        try:
            assert journal.latest() == step
        except PipelineError:
            refused += 1

    assert refused > len(content) * 0.9


def test_a_damaged_step_is_refused(tmp_path: Path) -> None:
    journal = StepJournal(tmp_path)
    published(journal, RulesStep(number=0, batch=0))
    (journal.path(0) / "step.json").write_text('{"number": 0}')

    with pytest.raises(PipelineError, match=r"step.json is damaged .*restore the checkpoint"):
        journal.latest()
