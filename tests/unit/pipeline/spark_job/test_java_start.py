"""A Java process that was started and has not answered yet ends with the call that started it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from pyspark import SparkContext, java_gateway

from kbroker.pipeline.spark_job.java_start import _ended_if_interrupted, start_java

SLEEPING = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_an_interrupted_start_leaves_no_process() -> None:
    started: list[subprocess.Popen[bytes]] = []

    def interrupted() -> None:
        with _ended_if_interrupted({}):
            started.append(java_gateway.Popen(SLEEPING, start_new_session=True))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert started[0].returncode == -9
    assert java_gateway.Popen is subprocess.Popen


def test_a_start_that_succeeds_leaves_its_process() -> None:
    with _ended_if_interrupted({}):
        process = java_gateway.Popen(SLEEPING, start_new_session=True)

    assert process.poll() is None
    process.kill()
    process.wait()


def test_spark_gets_the_home_it_is_told_and_the_rest_of_the_environment() -> None:
    program = "import os; print(os.environ['SPARK_HOME'], os.environ['A'])"
    environment = {**os.environ, "SPARK_HOME": "/theirs", "A": "a"}

    with _ended_if_interrupted({"SPARK_HOME": "/ours"}):
        process = java_gateway.Popen(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE
        )

    assert process.communicate()[0] == b"/ours a\n"


def test_nobody_reads_a_secret_in_the_list_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def launched(conf: Any, _options: object) -> object:
        told.update(conf.getAll())
        return object()

    told: dict[str, str] = {}
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda gateway: None)
    monkeypatch.setattr(java_gateway, "launch_gateway", launched)
    secrets = dict.fromkeys(("spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword"), "S")

    start_java({"spark.driver.memory": "1g", **secrets}, None)

    assert told == {"spark.driver.memory": "1g"}
