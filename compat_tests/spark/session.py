"""The one Spark session of a test process, with Spark's Kafka connector where it can be had.

Law: imports no kbroker, because the broker is tested from outside. A test never stops the session,
which others share; it takes a fresh topic and fresh directories, and stops the queries it starts.
Java options cannot change once the session runs: a test that needs others starts its own process.

All of this folder runs with any pyspark that has a connector, in an environment that holds it and
what kbroker and its tests need: `python -m pytest compat_tests/spark`, after `pip install
pyspark==4.2.0`, say. `--target kafka` runs it against Apache Kafka.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests.spark.quick_java import quick_home, quick_java

NO_JAVA = "no java on PATH: Spark needs Java 17 or 21 (Debian: apt install openjdk-17-jre-headless)"
NO_CONNECTOR = (
    "Spark's Kafka connector could not be fetched: it needs a Maven registry "
    "(spark.jars.packages), or an Ivy cache and a registry that answers for it"
)

_HELPER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
_FIRST = "4.0.0"


def spark_settings(folder: Path) -> dict[str, str]:
    """Small: two tasks at a time, one gigabyte, nothing served."""
    return {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        # To compile a query takes longer than to run it over what a test writes. Jobs that tests
        # start as processes compile, as those of users do.
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.minBatchesToRetain": "5",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def connector_settings() -> dict[str, str]:
    """Where Spark fetches its Kafka connector from: the version is pyspark's own.

    The helper jar of later versions is missing in some registries. That of the first version does
    as well where an Ivy cache holds it: a run with pyspark 4.0.0 leaves it there.
    """
    import pyspark

    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    settings = {"spark.jars.packages": connector}
    helper = Path.home() / ".ivy2.5.2" / "jars" / f"{_HELPER.replace(':', '_')}-{_FIRST}.jar"
    if pyspark.__version__ != _FIRST and helper.exists():
        settings |= {"spark.jars.excludes": _HELPER, "spark.jars": str(helper)}
    return settings


def open_session(settings: dict[str, str]) -> Any:
    """The session of this process."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # failures that tests provoke are no news
    return session


@contextmanager
def _ivy_alone() -> Iterator[None]:
    """Ivy takes what another process has half fetched for what there is, and tests run beside this
    one; kbroker's jobs wait by this file, too.
    """
    folder = Path.home() / ".ivy2.5.2"
    folder.mkdir(exist_ok=True)
    with (folder / "kbroker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session; skips where Spark cannot run."""
    if shutil.which("java") is None:
        pytest.skip(NO_JAVA)
    pytest.importorskip("pyspark", reason="pip install 'kbroker[spark]'")
    # For the sessions that tests start in processes of their own as well.
    os.environ |= {"PYSPARK_PYTHON": sys.executable, **quick_java()}
    folder = tmp_path_factory.mktemp("spark")
    settings = spark_settings(folder)
    try:
        with _ivy_alone(), quick_home(tmp_path_factory.mktemp("spark-home")):
            session = open_session({**settings, **connector_settings()})
    except Exception:  # the JVM ends where Ivy cannot resolve; pyspark says so in several ways
        session = open_session(settings)
    yield session
    session.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def kafka_connector(spark: Any) -> str:
    """Skips a test that needs `format("kafka")` where the connector could not be fetched."""
    try:
        spark._jvm.Thread.currentThread().getContextClassLoader().loadClass(
            "org.apache.spark.sql.kafka010.KafkaSourceProvider"
        )
    except Exception:
        pytest.skip(NO_CONNECTOR)
    return "kafka"
