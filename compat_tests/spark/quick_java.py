"""Spark's Java, started quickly: for processes that run some seconds.

Most of such a process is the start of Java: 20,000 classes to load, to check and to compile. So it
has the quick compiler and the small collector, and an archive of those classes as Java keeps them
in memory, made once for a pyspark and a Java (`$KBROKER_TEST_CACHE`). A session then takes half of
the processor's time. What is measured, or runs long, starts Java as it comes.

Law: imports no kbroker.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from compat_tests.apache_kafka import cache_directory

# An archive that does not fit is passed over; Java warns of it where commands print.
_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:disable -Xlog:all=error:stderr"
_LONGEST_S = 200
_PROGRAM = """
import sys
from pyspark.sql import SparkSession

folder = sys.argv[1]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.local.dir", folder)
builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.sql.warehouse.dir", folder + "/warehouse")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = spark.range(100).selectExpr(
    "id", "id % 3 AS part", "CAST(id AS STRING) AS text", "timestamp_millis(id) AS time",
    "array(named_struct('key', 'k', 'value', CAST('v' AS BINARY))) AS headers",
)
rows.write.partitionBy("part").parquet(folder + "/rows")
stored = spark.read.parquet(folder + "/rows")
stored.filter("part > 0").groupBy("part").count().orderBy("part").join(rows, "part").collect()
rows.mapInArrow(lambda batches: batches, rows.schema).collect()
spark.createDataFrame([("k", "v")], "key string, value string").collect()
query = (
    spark.readStream.schema(stored.schema).parquet(folder + "/rows")
    .writeStream.foreachBatch(lambda frame, number: frame.count())
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()
java.wait()
"""


def quick_java() -> dict[str, str]:
    """What the environment of a process that starts Spark has to hold."""
    archive = _archive()
    options = _OPTIONS if archive is None else f"{_OPTIONS} -XX:SharedArchiveFile={archive}"
    return {"SPARK_SUBMIT_OPTS": options, "SPARK_LAUNCHER_OPTS": _OPTIONS}


@functools.cache
def _archive() -> Path | None:
    """The archive, made now if there is none; None where this Java makes none."""
    import pyspark

    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    known_by = f"{pyspark.__file__} {pyspark.__version__} {java} {_PROGRAM}"
    name = hashlib.sha256(known_by.encode()).hexdigest()[:12]
    archive = cache_directory() / f"spark-{pyspark.__version__}-{name}.jsa"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may ask at once
        if not archive.exists():
            _make(archive)
    return archive if archive.stat().st_size else None


def _make(archive: Path) -> None:
    """Write it; an empty one where that does not work, which is not tried again."""
    with tempfile.TemporaryDirectory(prefix="spark-classes-") as folder:
        made = archive.with_suffix(".new")
        options = f"{_OPTIONS} -XX:ArchiveClassesAtExit={made}"
        environment = {"SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, folder], env={**os.environ, **environment},
            cwd=folder, capture_output=True, timeout=_LONGEST_S, check=False,
        )  # fmt: skip
    if done.returncode != 0 or not made.exists():
        made.unlink(missing_ok=True)
        made.touch()
    made.replace(archive)
