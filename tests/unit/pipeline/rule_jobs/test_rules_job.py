"""A job of rules whose checkpoint and state are from different times."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.rule_jobs import rules_job
from kbroker.pipeline.rule_jobs.lookup_tables import LookupTables
from kbroker.pipeline.rule_jobs.rule_reading import parse_rules
from kbroker.pipeline.rule_jobs.rules_job import RulesJob
from kbroker.pipeline.rule_jobs.step_journal import RulesStep, StepJournal
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.spark_job.batch import Batch
from kbroker.pipeline.spark_job.offsets import OffsetRange

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RULES = """
name = "n"

[inputs.logs]
topics = ["t"]
format = "json"
schema = "a STRING"

[rules.all]
from = "logs"
to = "out"
"""


class GoesOnError(Exception):
    """The batch is worked on."""


def job_at(checkpoint: Path, step: RulesStep) -> RulesJob:
    journal = StepJournal(checkpoint)
    journal.stage()
    journal.publish(step)
    spec = parse_rules(RULES, "rules.toml")
    tables = LookupTables((), lambda _: pytest.fail("there is no table"))
    source = KafkaSource(bootstrap="h:1", topics=("t",))
    return RulesJob(spec, source, checkpoint, tables, lambda _: None)


class Frame:
    """The records of a batch: whoever works on them asks for their session."""

    @property
    def sparkSession(self) -> object:  # noqa: N802 - as pyspark calls it
        raise GoesOnError


def batch(number: int, **ranges: tuple[int, int]) -> Batch:
    places = {"a": T0, "b": T1}
    found = {places[name]: OffsetRange(*each) for name, each in ranges.items()}
    return Batch(number=number, job_id="j", frame=Frame(), ranges=found)


AT_SEVEN = RulesStep(number=4, batch=7, ends={"t-0": 30, "t-1": 5})


@pytest.mark.parametrize(
    "done",
    [
        batch(7, a=(20, 30)),
        batch(7, a=(20, 30), b=(0, 5)),
        batch(7),
        batch(7, a=(20, 29)),  # planned again, with fewer records
        batch(6, a=(10, 20)),
    ],
)
def test_what_the_state_has_taken_in_is_not_done_again(done: Batch, tmp_path: Path) -> None:
    job = job_at(tmp_path, AT_SEVEN)

    result = job.work(done)

    assert result.notes == (f"batch {done.number} was done before",)


@pytest.mark.parametrize(
    ("following", "left_out"),
    [
        (batch(8, a=(30, 40)), []),
        (batch(8, b=(5, 6)), []),
        (batch(8), []),
        (batch(8, a=(29, 40)), [(T0, 30)]),
        (batch(7, a=(20, 31)), [(T0, 30)]),  # planned again, with more records
        (batch(6, a=(10, 31), b=(4, 5)), [(T0, 30), (T1, 5)]),
    ],
)
def test_what_is_new_is_worked_on(
    following: Batch,
    left_out: list[tuple[TopicPartition, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without(frame: object, partition: TopicPartition, end_offset: int) -> object:
        found.append((partition, end_offset))
        return frame

    found: list[tuple[TopicPartition, int]] = []
    job = job_at(tmp_path, AT_SEVEN)
    monkeypatch.setattr(rules_job, "records_from", without)

    with pytest.raises(GoesOnError):
        job.work(following)

    assert found == left_out


@pytest.mark.parametrize("number", [7, 8])
def test_a_batch_behind_the_end_of_the_state_is_refused(number: int, tmp_path: Path) -> None:
    job = job_at(tmp_path, AT_SEVEN)

    with pytest.raises(PipelineError, match=r"t-0 from offset 31 on, and the state .* ends at 30"):
        job.work(batch(number, a=(31, 40)))
