"""`kbroker pipeline` shows its help without Spark and all that comes with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.pipeline.session_options import pipeline_errors
from kbroker.pipeline.errors import ExitCode, PipelineError

SHOW_HELP = """
import sys
from kbroker.cli.__main__ import main
for words in ([], ["archive"], ["audit"], ["lag"]):
    try:
        main(["pipeline", *words, "--help"])
    except SystemExit as end:
        assert end.code == 0, words
heavy = {"jinja2", "kafka", "matplotlib", "numpy", "pandas", "pyarrow", "pyspark"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_no_help_imports_what_the_spark_extra_brings() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW_HELP], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    for name in ("archive", "audit", "lag"):
        assert f"Usage: kbroker pipeline {name} [OPTIONS]" in done.stdout


def test_a_package_that_is_not_installed_is_told_with_what_to_install() -> None:
    with (
        pytest.raises(CommandError, match=r"pyarrow is not installed: pip install 'kbroker\[spark"),
        pipeline_errors(),
    ):
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow.parquet")


def test_a_module_of_our_own_that_is_missing_is_a_fault() -> None:
    with pytest.raises(ModuleNotFoundError), pipeline_errors():
        raise ModuleNotFoundError("No module named 'kbroker.x'", name="kbroker.x")


def test_a_sentence_keeps_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError) as refused, pipeline_errors(verbose=True):
        raise PipelineError("no broker", ExitCode.CANNOT_CONNECT) from OSError("refused")

    assert (refused.value.message, refused.value.code) == ("no broker", 3)
    assert "OSError: refused" in capsys.readouterr().err
