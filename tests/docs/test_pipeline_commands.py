"""The commands and the Spark code of the pages do what they show."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from compat_tests.running.apache_kafka import free_port
from compat_tests.spark.quick_java import quick_java
from tests.docs.pages import blocks, printed, shown_commands, text_of
from tests.docs.terminals import DEFAULT_ADDRESS, Terminals, run

PIPELINE = text_of("pipeline")


def standalone_settings(quick: dict[str, str]) -> dict[str, str]:
    """For a cluster of Spark on this machine: quick starts, and no port that another may have."""
    ports = dict.fromkeys(("SPARK_MASTER_WEBUI_PORT", "SPARK_WORKER_WEBUI_PORT"), "0")
    options = quick["SPARK_SUBMIT_OPTS"]
    # The executors take the last ones, as every Java does.
    java = {"SPARK_DAEMON_JAVA_OPTS": options, "JDK_JAVA_OPTIONS": options}
    return {**quick, **ports, **java, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_spark_and_the_pipeline_do_what_is_shown(terminals: Terminals) -> None:
    if shutil.which("java") is None:
        pytest.skip("no java on PATH (Spark needs Java 17 or 21)")
    terminals.settings = {"PYSPARK_PYTHON": sys.executable, **quick_java()}
    (toml,) = blocks("toml", PIPELINE)
    (terminals.directory / "pipeline.toml").write_text(
        toml.replace(DEFAULT_ADDRESS, terminals.address)
    )
    (connector,) = [code for code in blocks("python", text_of("start")) if "spark.jars" in code]
    log_source, _, tables = blocks("python", PIPELINE)
    (terminals.directory / "sales.py").write_text(
        log_source.replace(DEFAULT_ADDRESS, terminals.address)
    )

    for shown in shown_commands(PIPELINE):
        terminals.play(shown)
    for job in ("archive --dry-run", "audit --dry-run", "lag"):
        command = ["kbroker", "pipeline", *job.split(), "--config", "pipeline.toml"]
        assert "sales" in run(command, terminals.directory)
    output = run(
        [sys.executable, "-c", connector.replace(DEFAULT_ADDRESS, terminals.address)],
        terminals.directory, 400, **terminals.settings,
    )  # fmt: skip
    read = run([sys.executable, "-c", tables], terminals.directory)
    (commands,) = blocks("sh", PIPELINE)
    on_cluster = run(
        ["bash", "-ec", f"trap 'kill $(jobs -p)' EXIT\n{commands.replace('7077', str(free_port()))}"],
        terminals.directory, 400, **standalone_settings(terminals.settings),
    )  # fmt: skip

    rows = sorted(re.findall(r"^\| *(k\d)\| *(v\d)\| *\d+\|$", output, re.MULTILINE))
    assert rows == [("k1", "v1"), ("k2", "v2")]
    assert read.splitlines() == printed(tables)
    assert "archive reached the end: 1,600 rows" in on_cluster
    assert re.findall(r"^\d+$", on_cluster, re.MULTILINE) == printed(log_source)
