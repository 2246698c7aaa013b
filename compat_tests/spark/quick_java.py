"""Spark's Java, started quickly: for processes that run some seconds.

Most of such a process is the start of Java: 20,000 classes to load, to check and to compile. So it
has the quick compiler and the small collector, and an archive of those classes as Java keeps them
in memory, made once for a pyspark and a Java (`$KBROKER_TEST_CACHE`). A session then takes half of
the processor's time. What is measured, or runs long, starts Java as it comes.

`quick_home` is for the session itself: in Spark's own home pyspark is a zip, of which every Python
process compiles what it imports.

Law: imports no kbroker, as nothing in compat_tests does: the broker is tested from outside.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from compat_tests.running.class_archive import SHORT_LIVED, ClassArchive
from compat_tests.running.prerequisites import cache_directory

# Its classes fill more than Java begins with, which it answers with a whole collection.
_OPTIONS = (*SHORT_LIVED, "-XX:MetaspaceSize=256m")
_LONGEST_S = 200
_AGAIN_S = 3600
_PROGRAM = """
import sys
from pyspark.sql import SparkSession

folder = sys.argv[1]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.local.dir", folder)
builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.sql.warehouse.dir", folder + "/warehouse")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = spark.range(100).selectExpr("id", "id % 3 AS part", "CAST(id AS STRING) AS text")
rows.write.partitionBy("part").parquet(folder + "/rows")
spark.read.parquet(folder + "/rows").groupBy("part").count().collect()
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()
java.wait()
"""


def quick_java() -> dict[str, str]:
    """Return the environment for a process that starts Spark."""
    options = " ".join([*_OPTIONS, *_archive_options()])
    return {"SPARK_SUBMIT_OPTS": options, "SPARK_LAUNCHER_OPTS": " ".join(_OPTIONS)}


@contextmanager
def quick_home(folder: Path) -> Iterator[None]:
    """For the length of a block SPARK_HOME is one that we make in a folder, with pyspark unpacked; a
    process that is started later looks for its own.
    """
    import py4j
    import pyspark

    package = Path(pyspark.__file__).parent
    for own in package.iterdir():
        if own.is_dir() and own.name != "python":
            (folder / own.name).symlink_to(own)
    for library in (package / "python" / "lib").glob("*.zip"):
        installed = package if library.stem == "pyspark" else Path(py4j.__file__).parent
        unpacked = folder / "python" / "lib" / library.name
        unpacked.mkdir(parents=True)
        (unpacked / installed.name).symlink_to(installed)
    with patch.dict(os.environ, SPARK_HOME=str(folder)):
        yield


@functools.cache
def _archive_options() -> list[str]:
    """For the archive, which is made now if there is none; nothing where this Java makes none, or
    there is no place to keep it.
    """
    import pyspark

    known_by = hashlib.sha256(f"{pyspark.__file__} {_PROGRAM}".encode()).hexdigest()[:12]
    archive = ClassArchive(cache_directory(), f"spark-{pyspark.__version__}-{known_by}")
    try:
        archive.path.parent.mkdir(parents=True, exist_ok=True)
        with archive.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may ask at once
            if _may_be_made(archive.path):
                archive.path.unlink(missing_ok=True)
                _make(archive)
        return archive.using() if archive.path.stat().st_size else []
    except OSError:
        return []


def _may_be_made(path: Path) -> bool:
    """Whether there is none, nor an empty one, which says that it could not be made a while ago."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return True
    return there.st_size == 0 and time.time() - there.st_mtime > _AGAIN_S


def _make(archive: ClassArchive) -> None:
    """Write it; an empty one where that does not work, which is tried again an hour later: it may
    have been a busy machine.
    """
    with tempfile.TemporaryDirectory(prefix="spark-classes-") as folder:
        options = " ".join([*_OPTIONS, *archive.making()])
        try:
            subprocess.run(
                [sys.executable, "-c", _PROGRAM, folder],
                env=os.environ | {"SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable},
                cwd=folder, capture_output=True, timeout=_LONGEST_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pass  # what is there of it is not whole
        else:
            archive.keep()
    archive.path.touch()
