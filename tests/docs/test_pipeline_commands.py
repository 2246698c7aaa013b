"""The commands and the Spark code of the pages do what they show."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from compat_tests.spark.quick_java import quick_java
from tests.docs.pages import blocks, shown_commands, text_of
from tests.docs.terminals import DEFAULT_ADDRESS, Terminals, run

PIPELINE = text_of("pipeline")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_spark_and_the_pipeline_do_what_is_shown(terminals: Terminals) -> None:
    if shutil.which("java") is None:
        pytest.skip("no java on PATH (Spark needs Java 17 or 21)")
    terminals.settings = {"PYSPARK_PYTHON": sys.executable, **quick_java()}
    (toml,) = blocks("toml", PIPELINE)
    (terminals.directory / "pipeline.toml").write_text(
        toml.replace(DEFAULT_ADDRESS, terminals.address)
    )
    (connector,) = [code for code in blocks("python", text_of("start")) if "spark.jars" in code]
    (log_source,) = blocks("python", PIPELINE)
    code = connector + log_source  # one session for both
    printed = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)

    for shown in shown_commands(PIPELINE):
        terminals.play(shown)
    for job in ("archive --dry-run", "audit --dry-run", "lag"):
        command = ["kbroker", "pipeline", *job.split(), "--config", "pipeline.toml"]
        assert "sales" in run(command, terminals.directory)
    output = run(
        [sys.executable, "-c", code.replace(DEFAULT_ADDRESS, terminals.address)],
        terminals.directory, 280, **terminals.settings,
    )  # fmt: skip

    rows = sorted(re.findall(r"^\| *(k\d)\| *(v\d)\| *\d+\|$", output, re.MULTILINE))
    assert rows == [("k1", "v1"), ("k2", "v2")]
    assert re.findall(r"^\d+$", output, re.MULTILINE) == printed
