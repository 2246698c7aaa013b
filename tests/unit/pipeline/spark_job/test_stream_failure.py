"""What Spark said, in one sentence. The texts are Spark's own, shortened."""

from __future__ import annotations

import pytest

from kbroker.pipeline.errors import ExitCode
from kbroker.pipeline.spark_job.stream_failure import is_of_spark, sentence_of_failure

LOST = (
    "Some data may have been lost because they are not available in Kafka any more;\n"
    "either the data was aged out by Kafka or the topic may have been deleted before all the data "
    "in the\ntopic was processed.\nIf you don't want your streaming query to fail on such cases, "
    "set the source option failOnDataLoss to false.\nReason: {}\n=== Streaming Query ===\n"
    "Identifier: nightly [id = b890087b, runId = 3afc410a]\n"
)
IN_A_TASK = (
    "An error occurred while calling o96.count.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0\n"
    "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)\n"
    "Caused by: {}\n\t... 1 more\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            LOST.format("Partition d4-1 offset was changed from 53 to 3."),
            "d4-1 ends at offset 3, and the checkpoint is at 53",
        ),
        (
            LOST.format("Added partition d6-3 starts from 115 instead of 0."),
            "offsets 0 to 114 of d6-3 were removed",
        ),
        (LOST.format("Set(d4-1, d4-0) are gone."), "d4-1, d4-0: gone while the job ran"),
        (LOST.format("something new"), "records were removed while the job was about to read"),
        (
            IN_A_TASK.format(
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server"
            ),
            "a topic of this job is gone",
        ),
        (
            IN_A_TASK.format(
                "org.apache.kafka.common.KafkaException: Encountered corrupt message when fetching "
                "offset 100 for topic-partition big-orders-0"
            ),
            "offset 100 of big-orders-0 is in a damaged batch",
        ),
        (
            IN_A_TASK.format(
                "org.apache.kafka.common.KafkaException: Received exception when fetching the next "
                "record from big-orders-0. If needed, please seek past the record to continue "
                "consumption."
            ),
            "a batch of big-orders-0 cannot be read: `kbroker consume big-orders --partition 0 > ",
        ),
        (
            IN_A_TASK.format("java.lang.ArithmeticException: long overflow"),
            "a record has a time after the year 294246, which Spark's Kafka connector cannot read",
        ),
        (
            IN_A_TASK.format("java.io.IOException: No space left on device"),
            "the disk is full",
        ),
        (IN_A_TASK.format("java.lang.OutOfMemoryError: Java heap space"), "--batch-records"),
        (
            IN_A_TASK.format("org.apache.spark.SparkException: Python worker exited unexpectedly"),
            "a Python worker of Spark ended",
        ),
        (
            IN_A_TASK.format(
                "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
                "kbroker.pipeline.errors.PipelineError: /data/t-0 is cut at byte 61"
            ),
            "/data/t-0 is cut at byte 61",
        ),
    ],
)
def test_a_known_failure_is_one_sentence(text: str, said: str) -> None:
    error = sentence_of_failure(RuntimeError(text))

    assert said in error.sentence
    assert "\n" not in error.sentence


def test_a_cluster_out_of_reach_has_its_exit_code() -> None:
    text = IN_A_TASK.format("org.apache.kafka.common.errors.TimeoutException: Timed out")

    assert sentence_of_failure(RuntimeError(text)).code == ExitCode.CANNOT_CONNECT


def test_any_other_failure_is_told_by_its_innermost_cause() -> None:
    text = IN_A_TASK.format("java.lang.IllegalStateException: a new thing")

    assert sentence_of_failure(RuntimeError(text)).sentence == (
        "the Spark query failed: IllegalStateException: a new thing"
    )


def test_a_failure_without_a_word_is_told_too() -> None:
    assert "it gave no reason" in sentence_of_failure(RuntimeError("")).sentence


def test_faults_of_our_own_code_are_not_sparks() -> None:
    assert not is_of_spark(KeyError("x"))
