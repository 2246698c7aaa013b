"""The Java process that ends under a running job: killed, or out of memory.

Every call into Spark then fails in a way of its own, and py4j and pyspark print tracebacks from
their own threads. A person gets one sentence.
"""

from __future__ import annotations

import logging
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kbroker.errors import Trouble
from kbroker.pipeline.errors import PipelineError

JAVA_ENDED = (
    "the Java process of Spark has ended, killed or out of memory: run the job again, "
    "it continues where it was (more memory: spark.driver.memory)"
)
_GRACE_S = 0.5  # its connections end a little before it does


@contextmanager
def java_sentence() -> Iterator[None]:
    """Turn whatever is raised while the Java process is gone into one sentence."""
    try:
        yield
    except Exception as error:
        if has_ended(java_process(), _GRACE_S):
            raise PipelineError(JAVA_ENDED, trouble=Trouble.SPARK) from error
        raise


def java_process() -> Any:
    """Return the process that pyspark started, as a Popen; None if it started none."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def has_ended(process: Any, grace_s: float = 0) -> bool:
    """Return whether there was a process and it is gone within `grace_s`."""
    if process is None:
        return False
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def quiet_python_side(spark: Any) -> None:
    """Keep what py4j and pyspark print about a lost connection off the terminal."""
    quiet_python_start()
    quiet_query_errors()
    spark.sparkContext._accumulatorServer.handle_error = _say_nothing


def quiet_python_start() -> None:
    """Keep what py4j logs of an interrupted start off the terminal."""
    # With a handler of its own the root logger is not given one that prints.
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def quiet_query_errors() -> None:
    """Keep pyspark's log of bad SQL, with Java's stack, off the terminal: its catcher
    reports it.
    """
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C led to the error: pyspark cleans up what it cut, and fails at that."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def stop_quietly(spark: Any) -> None:
    """Stop a session. If a second Ctrl-C interrupts that, pyspark warns of a Java process that may
    stay for ever; it ends with this one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()


def _say_nothing(*_: object) -> None:
    """In place of socketserver's traceback."""
