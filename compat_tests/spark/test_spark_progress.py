"""A Spark query's lag, as the tools of a cluster see it: a person's own program with the one line
that commits the query's progress.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from compat_tests.clients.every_client import create_topic
from compat_tests.commands.test_cli_pipeline_lag import (
    numbers_of_describe,
    numbers_of_java,
    numbers_of_ours,
    write,
)
from compat_tests.running import apache_kafka
from compat_tests.spark.session import connector_settings, spark_settings

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from kbroker.pipeline import commit_progress

settings, bootstrap, topic, name, folder = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")

commit_progress(spark, bootstrap)

query = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "30")
    .load()
    .writeStream.format("noop")
    .queryName(name)
    .option("checkpointLocation", folder)
    .trigger(availableNow=True)
    .start()
)
assert query.awaitTermination(100)
"""


def run_program(tmp_path: Path, bootstrap: str, topic: str, name: str) -> None:
    settings = {**spark_settings(tmp_path / "spark"), **connector_settings()}
    arguments = json.dumps([settings, bootstrap, topic, name, str(tmp_path / "checkpoint")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, arguments],
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_tool_sees_the_lag_of_a_query(bootstrap: str, topic: str, tmp_path: Path) -> None:
    create_topic(bootstrap, topic, 2)
    write(bootstrap, topic, 100, partition=0)
    write(bootstrap, topic, 20, partition=1)

    run_program(tmp_path, bootstrap, topic, name=topic)
    write(bootstrap, topic, 7, partition=1)

    group = f"spark-{topic}"
    expected = {(group, topic, 0): (100, 100, 0), (group, topic, 1): (20, 27, 7)}
    assert numbers_of_java(bootstrap, apache_kafka.NEWEST, group) == expected
    assert numbers_of_describe(bootstrap, group) == expected
    assert numbers_of_ours(bootstrap, group) == expected
