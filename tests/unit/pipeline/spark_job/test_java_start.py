"""A Java process that was started and has not answered yet ends with the call that started it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark import java_gateway

from kbroker.pipeline.spark_job.java_start import _ended_if_interrupted

SLEEPING = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_an_interrupted_start_leaves_no_process() -> None:
    started: list[subprocess.Popen[bytes]] = []

    def interrupted() -> None:
        with _ended_if_interrupted():
            started.append(java_gateway.Popen(SLEEPING, start_new_session=True))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert started[0].returncode == -9
    assert java_gateway.Popen is subprocess.Popen


def test_a_start_that_succeeds_leaves_its_process() -> None:
    with _ended_if_interrupted():
        process = java_gateway.Popen(SLEEPING, start_new_session=True)

    assert process.poll() is None
    process.kill()
    process.wait()
