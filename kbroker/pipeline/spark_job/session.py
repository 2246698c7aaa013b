"""The Spark session of a job, opened quietly, or refused with a sentence.

Java's and Ivy's output goes to a file of ours, which is searched for the reason if the session does
not come up; with `verbose` it goes to the terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kbroker.errors import Trouble
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.artifacts import artifacts_of, has_artifacts, remove_artifacts
from kbroker.pipeline.spark_job.ivy_cache import filled_alone, ivy_cache
from kbroker.pipeline.spark_job.java import check_java
from kbroker.pipeline.spark_job.java_start import start_java
from kbroker.pipeline.spark_job.kafka_connector import (
    NO_CONNECTOR,
    PACKAGES,
    PROVIDER_CLASS,
    connector_settings,
    sentence_of_ivy,
)
from kbroker.pipeline.spark_job.lost_java import (
    has_ended,
    java_process,
    java_sentence,
    quiet_python_side,
    quiet_python_start,
    stop_quietly,
    was_interrupted,
)
from kbroker.pipeline.spark_job.spark_home import quick_home
from kbroker.pipeline.spark_job.temporary_folder import temporary_folder

NO_PYSPARK = "pyspark is not installed: pip install 'kbroker[spark]'"
JAVA_OUTPUT = "java-output.txt"
_IN_PROCESS_BYTES = 1024 * 1024 * 1024  # less is read before Spark has started
_EXCEPTION = re.compile(r"([\w$]+(?:Exception|Error)): (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The Spark session that a job opens for itself, and closes."""

    master: str = "local[*]"
    app_name: str = "kbroker"
    needs_connector: bool = False  # of Kafka
    jars: tuple[str, ...] = ()  # files or folders
    conf: Mapping[str, str] = field(default_factory=dict)  # by Spark's names; overrides ours
    verbose: bool = False
    is_chosen: bool = False  # False: little work is done in this process, without Spark


OWN_SESSION: Final = SessionSettings()


def uses_spark(spark: Any, size_bytes: int) -> bool:
    """Return whether a job that reads so much runs over Spark; `spark` is a SparkSession, or the
    settings of one.
    """
    if not isinstance(spark, SessionSettings):
        return True
    return spark.is_chosen or size_bytes > _IN_PROCESS_BYTES


def open_session(settings: SessionSettings) -> Any:
    """Open a SparkSession, or return the one that runs already, as in a notebook.

    Raises PipelineError: no pyspark, no Java or the wrong one, no connector, no such master.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PipelineError(NO_PYSPARK, trouble=Trouble.SPARK) from error
    running = SparkSession.getActiveSession()
    if running is not None:
        if settings.needs_connector:
            check_connector(running)
        return running
    check_java(pyspark.__version__)
    folder = temporary_folder()
    spark = _start_filling_cache(settings, pyspark.__version__, folder)
    spark.sparkContext.setLogLevel("WARN" if settings.verbose else "ERROR")
    if settings.needs_connector:
        check_connector(spark)
    return spark


@contextmanager
def running_session(settings: SessionSettings) -> Iterator[Any]:
    """Yield a session for the length of a block; one that ran before is left running."""
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        if SparkSession.getActiveSession() is not None:
            yield open_session(settings)
            return
    with java_sentence():
        if not settings.verbose:
            quiet_python_start()
        keeps_parent = has_artifacts()
        spark = open_session(settings)
        artifacts = artifacts_of(spark)
        if not settings.verbose:
            quiet_python_side(spark)
        try:
            yield spark
        finally:
            if not has_ended(java_process()):
                stop_quietly(spark)
            if artifacts is not None:
                remove_artifacts(artifacts, keeps_parent=keeps_parent)


def spark_conf(settings: SessionSettings, pyspark_version: str, folder: Path) -> dict[str, str]:
    """Return all settings that the session is started with, by Spark's names."""
    conf = {
        "spark.master": settings.master,
        "spark.app.name": settings.app_name,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        # Compiled code of queries: a batch of rules needs more than the 100 that Spark keeps.
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_local(settings.master):
        conf |= {
            # Times before 1582 are corrected from Julian dates, which are of Java's time zone.
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        }
    conf |= connector_settings(
        pyspark_version, settings.jars, settings.needs_connector, ivy_cache(settings.conf)
    )
    return {**conf, **settings.conf}


def is_local(master: str) -> bool:
    """Return whether driver and workers are on this machine, with its files and its Python."""
    return master.partition("[")[0] == "local"


def _start_filling_cache(settings: SessionSettings, pyspark_version: str, folder: Path) -> Any:
    """Start, and fetch the connector first if it is neither here nor on its way."""
    conf = spark_conf(settings, pyspark_version, folder)
    cache = ivy_cache(settings.conf)
    if cache is not None and PACKAGES in conf:
        with filled_alone(cache):
            conf = spark_conf(settings, pyspark_version, folder)
            if PACKAGES in conf:  # still
                return _start(conf, settings, folder)
    return _start(conf, settings, folder)


def _start(conf: Mapping[str, str], settings: SessionSettings, folder: Path) -> Any:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if is_local(settings.master):
        os.environ["PYSPARK_PYTHON"] = sys.executable  # another Python may lack pyarrow or kbroker
    output = folder / JAVA_OUTPUT
    try:
        with output.open("wb") as file:
            home = quick_home(folder) if is_local(settings.master) else None
            start_java(conf, None if settings.verbose else file, home)
        builder = SparkSession.builder
        for name, value in conf.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        text = "" if settings.verbose else output.read_text(encoding="utf-8", errors="replace")
        sentence = _why_not(f"{text}\n{error}", settings)
        raise PipelineError(sentence, trouble=Trouble.SPARK) from error


def _why_not(text: str, settings: SessionSettings) -> str:
    """Return the sentence for a session that did not come up, from all that was printed."""
    sentence = sentence_of_ivy(text)
    if sentence is not None:
        return sentence
    found = _EXCEPTION.search(text)
    shown = f"{found[1]}: {found[2]}" if found else "Java ended without a message"
    hint = "" if settings.verbose else " (--verbose shows all that Java says)"
    return f"Spark did not start with master {settings.master}: {shown[:300]}{hint}"


def check_connector(spark: Any) -> None:
    """Refuse somebody else's session without it: Spark would throw a long Java exception."""
    loader = spark._jvm.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(PROVIDER_CLASS)
    except Exception as error:
        raise PipelineError(NO_CONNECTOR, trouble=Trouble.SPARK) from error
