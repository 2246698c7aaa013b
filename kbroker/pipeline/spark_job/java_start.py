"""Starts Spark's Java process in a process session of its own, so that Ctrl-C at the terminal
reaches the driver alone.

A running Java process ends with its driver. Before that, possibly for a minute while it fetches
jars, it does not look, and pyspark keeps the process to itself: a driver that is interrupted ends
it here.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from kbroker.pipeline.spark_job.secret_names import names_secret


def start_java(conf: Mapping[str, str], output: IO[bytes] | None, home: Path | None = None) -> None:
    """Start Java for this process, with what it prints in `output`, unless it has one already.
    `home` is Spark's home, in place of the one that pyspark finds.

    Others can see Java's arguments (`ps`), so it gets no secrets before it runs: whoever opens a
    session passes them again.

    Raises pyspark's error if Java ends before it answers.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    launch: Any = launch_gateway  # has no types
    options: dict[str, Any] = {"start_new_session": True}
    if output is not None:
        options |= {"stdout": output, "stderr": output}
    with _ended_if_interrupted({} if home is None else {"SPARK_HOME": str(home)}):
        told = [(name, value) for name, value in conf.items() if not names_secret(name)]
        gateway = launch(SparkConf(loadDefaults=False).setAll(told), options)
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _ended_if_interrupted(environment: Mapping[str, str]) -> Iterator[None]:
    import pyspark.java_gateway

    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            options["env"] = {**(options.get("env") or os.environ), **environment}
            super().__init__(*args, **options)
            started.append(self)

    module: Any = pyspark.java_gateway
    original, module.Popen = module.Popen, Recorded
    try:
        yield
    except BaseException:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        raise
    finally:
        module.Popen = original
