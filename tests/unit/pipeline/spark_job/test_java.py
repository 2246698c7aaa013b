"""Spark's Java is the one that its start script would take; a wrong one is a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.java import check_java


def program(folder: Path, says: str) -> None:
    """A `java` that prints its version as Java does, on standard error."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("says", "pyspark"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "4.0.0"),
        ('openjdk version "21" 2023-09-19', "4.1.4"),
        ('java version "25.0.1" 2025-10-21 LTS', "4.2.0"),
    ],
)
def test_a_java_that_this_pyspark_runs_on(tmp_path: Path, says: str, pyspark: str) -> None:
    program(tmp_path, says)

    check_java(pyspark, {"PATH": str(tmp_path)})


def test_no_java_is_told_with_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"no java on PATH: Spark needs Java 17 or 21 .*apt"):
        check_java("4.0.0", {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ('java version "1.8.0_362"', "is Java 8, too old for Spark"),
        ('openjdk version "11.0.2"', "is Java 11, too old for Spark"),
        ('openjdk version "25" 2025-09-16', "is Java 25, too new for pyspark 4.0.0"),
        ("Segmentation fault", "does not say which Java it is"),
    ],
)
def test_the_wrong_java_is_told(tmp_path: Path, says: str, sentence: str) -> None:
    program(tmp_path, says)

    with pytest.raises(PipelineError, match=sentence):
        check_java("4.0.0", {"PATH": str(tmp_path)})


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    program(tmp_path / "home" / "bin", 'openjdk version "11.0.2"')
    program(tmp_path / "path", 'openjdk version "17.0.1"')

    with pytest.raises(PipelineError, match="home/bin/java is Java 11"):
        check_java("4.0.0", {"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "home")})


def test_a_java_home_without_java_is_told(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no bin/java in it"):
        check_java("4.0.0", {"PATH": "", "JAVA_HOME": str(tmp_path)})
