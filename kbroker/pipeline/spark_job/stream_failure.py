"""Turns Spark's long Java exceptions into one sentence with advice.

A failure is recognised by words of its text, which come from Spark's and Kafka's own sources; if no
row knows it, its innermost cause is reported.

One failure is not final: Spark gives the Python process that plans a stream of "kbroker-log" ten
seconds to answer, which no setting changes, and then gives up the query. A busy machine, or one
that imports pyspark for the first time, may need longer. Nothing of the query has run by then, so
it can be started again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match

from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.spark_job.continuity import removed, went_back

STARTS = 4  # in a row, before a job is given up
_GIVEN_UP = re.compile(r"Python worker failed to connect back")
_LONGEST = 300
_CAUSE = re.compile(r"^(?:Caused by)?: (?:[\w.$]+\.)?([\w$]+): (.+)$", re.MULTILINE)


def is_of_spark(error: Exception) -> bool:
    """Return whether pyspark or its bridge to Java raised it; all else is our own fault."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def is_slow_start(error: Exception) -> bool:
    """Return whether Spark gave up a process that had not answered."""
    return _GIVEN_UP.search(str(error)) is not None


def trying_again(failed: int) -> str:
    """Return the sentence for a person after `failed` starts."""
    return (
        "a Python process of Spark did not answer within 10 s (a busy machine?): starting it again "
        f"({failed + 1} of {STARTS})"
    )


def sentence_of_failure(error: Exception) -> PipelineError:
    """Return the error of a query as one sentence, chained to the whole error."""
    text = str(error)
    for pattern, sentence, code in _KNOWN:
        found = pattern.search(text)
        if found is not None:
            return PipelineError(sentence(found), code)
    return PipelineError(f"the Spark query failed: {_innermost(text)}")


def _innermost(text: str) -> str:
    causes = _CAUSE.findall(text)
    if causes:
        name, words = causes[-1]
        return f"{name}: {words}"[:_LONGEST]
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line), "it gave no reason")[:_LONGEST]


def _went_back(found: Match[str]) -> str:
    return went_back(found[1], int(found[2]), int(found[3]))


def _added_too_late(found: Match[str]) -> str:
    return removed(found[1], 0, int(found[2]))


def _fixed(sentence: str) -> Callable[[Match[str]], str]:
    return lambda _: sentence


_FAILED = ExitCode.ITEM_FAILED
_KNOWN: tuple[tuple[re.Pattern[str], Callable[[Match[str]], str], ExitCode], ...] = (
    # A PipelineError of ours, raised in a worker or in the driver's callback.
    (re.compile(r"PipelineError: (.+)"), lambda found: found[1].strip(), _FAILED),
    (re.compile(r"Partition (\S+) offset was changed from (\d+) to (\d+)"), _went_back, _FAILED),
    (re.compile(r"Added partition (\S+) starts from (\d+) instead of"), _added_too_late, _FAILED),
    (
        re.compile(r"((?:Set|HashSet)\(\S[^)]*\)|\S+) (?:are|is) gone"),
        lambda found: (
            f"{re.sub(r'^(Hash)?Set', '', found[1]).strip('()')}: gone while the job ran; if the "
            "topic was deleted for good, begin with a new --checkpoint"
        ),
        _FAILED,
    ),
    (
        re.compile(r"corrupt message when fetching offset (\d+) for topic-partition (\S+)-(\d+)"),
        lambda found: (
            f"offset {found[1]} of {found[2]}-{found[3]} is in a damaged batch, which the broker "
            "does not serve: `kbroker log verify` on its data directory shows more; give up what "
            f"cannot be restored with `kbroker topic trim {found[2]} --before OFFSET`"
        ),
        _FAILED,
    ),
    (
        re.compile(r"exception when fetching the next record from (\S+)-(\d+)\."),
        lambda found: (
            f"a batch of {found[1]}-{found[2]} cannot be read: `kbroker consume {found[1]} "
            f"--partition {found[2]} > out` names its offsets; an archive leaves it out with "
            "--allow-loss"
        ),
        _FAILED,
    ),
    (
        re.compile(r"java\.lang\.ArithmeticException: long overflow"),
        _fixed(
            "a record has a time after the year 294246, which Spark's Kafka connector cannot read "
            "(are these nanoseconds?): `kbroker consume TOPIC --from 2100-01-01T00:00:00Z --output "
            "jsonl` shows where"
        ),
        _FAILED,
    ),
    (
        re.compile(r"UnknownTopicOrPartition"),
        _fixed(
            "a topic of this job is gone: it was deleted, or was created again a moment ago; see "
            "`kbroker topic list`, and begin with a new --checkpoint if it is another one now"
        ),
        _FAILED,
    ),
    (
        re.compile(
            r"Some data may have been lost|Cannot fetch offset|OffsetOutOfRange|"
            r"KAFKA_DATA_LOSS|Cannot fetch record"
        ),
        _fixed(
            "records were removed while the job was about to read them (retention, DeleteRecords, "
            "or the topic was deleted): run the same command again, which says which ones; an "
            "archive continues without them with --allow-loss"
        ),
        _FAILED,
    ),
    (
        re.compile(r"Timed out waiting for a node|TimeoutException|DisconnectException"),
        _fixed(
            "the cluster no longer answers: check that its brokers run, and start the job "
            "again; it continues where it was"
        ),
        ExitCode.CANNOT_CONNECT,
    ),
    (
        re.compile(r"[Cc]oncurrent update to the log|CONCURRENT_STREAM_LOG_UPDATE"),
        _fixed("another query writes to this checkpoint: give each job its own --checkpoint"),
        _FAILED,
    ),
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        _fixed("the disk is full: make room, and start the job again; it continues where it was"),
        _FAILED,
    ),
    (
        re.compile(r"OutOfMemoryError|Java heap space|GC overhead limit"),
        _fixed(
            "Java ran out of memory: give it more (--spark-conf spark.driver.memory=4g), or take "
            "smaller batches (--batch-records)"
        ),
        _FAILED,
    ),
    (
        re.compile(r"Python worker failed to connect back"),
        _fixed(
            f"a Python process of Spark did not answer within 10 s, {STARTS} times in a row: give "
            "the machine less to do, and run the same command again, which continues where it was; "
            "--verbose shows what the process said"
        ),
        _FAILED,
    ),
    (
        re.compile(r"Python worker exited unexpectedly"),
        _fixed(
            "a Python worker of Spark ended: was it out of memory? Take smaller batches "
            "(--batch-records); --verbose shows what it said"
        ),
        _FAILED,
    ),
    (
        re.compile(r"KAFKA_DATA_SOURCE_NOT_ENABLED|Failed to find data source: kafka"),
        _fixed("Spark has no Kafka connector: give its jars with --jars FOLDER"),
        _FAILED,
    ),
)
