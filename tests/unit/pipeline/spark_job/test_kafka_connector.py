"""Spark's Kafka connector comes from a registry or from jars; what is missing is named."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.spark_job.kafka_connector import (
    TESTED_LINES,
    connector_settings,
    sentence_of_ivy,
    untested,
)

ROOT = Path(__file__).resolve().parents[4]
UNRESOLVED = """
\t\t::          UNRESOLVED DEPENDENCIES         ::
\t\t:: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: ...]
"""
HALF_FILLED = """
\t\t[NOT FOUND  ] org.apache.kafka#kafka-clients;3.9.0!kafka-clients.jar (1ms)
\t==== local-m2-cache: tried
\t\t::              FAILED DOWNLOADS            ::
\t\t:: org.apache.kafka#kafka-clients;3.9.0!kafka-clients.jar
"""


def test_the_connector_is_that_of_pyspark() -> None:
    assert connector_settings("4.2.0", (), needs_connector=True) == {
        "spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
    }
    assert connector_settings("4.2.0", (), needs_connector=False) == {}


def test_a_folder_with_the_connector_takes_the_place_of_a_registry(tmp_path: Path) -> None:
    connector = tmp_path / "spark-sql-kafka-0-10_2.13-4.0.0.jar"
    client = tmp_path / "kafka-clients-3.9.0.jar"
    connector.touch()
    client.touch()

    settings = connector_settings("4.0.0", (str(tmp_path),), needs_connector=True)

    assert settings == {"spark.jars": f"{client},{connector}"}


def test_other_jars_are_added_to_the_connector(tmp_path: Path) -> None:
    jar = tmp_path / "mine.jar"
    jar.touch()

    settings = connector_settings("4.0.0", (str(jar),), needs_connector=True)

    assert settings["spark.jars"] == str(jar)
    assert settings["spark.jars.packages"].endswith(":4.0.0")


def test_a_connector_of_another_version_is_refused(tmp_path: Path) -> None:
    jar = tmp_path / "spark-sql-kafka-0-10_2.13-4.2.0.jar"
    jar.touch()

    with pytest.raises(PipelineError, match=r"2.13-4.2.0.jar, and pyspark here is 4.0.0"):
        connector_settings("4.0.0", (str(jar),), needs_connector=True)


def test_a_token_provider_of_ones_own_takes_the_place_of_the_registrys(tmp_path: Path) -> None:
    jar = tmp_path / "spark-token-provider-kafka-0-10_2.13-4.0.0.jar"
    jar.touch()

    settings = connector_settings("4.2.0", (str(jar),), needs_connector=True)

    assert settings == {
        "spark.jars": str(jar),
        "spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "spark.jars.excludes": "org.apache.spark:spark-token-provider-kafka-0-10_2.13",
    }


@pytest.mark.parametrize("name", ["missing.jar", "."])
def test_jars_that_are_not_there_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match="--jars") as refused:
        connector_settings("4.0.0", (str(tmp_path / name),), needs_connector=True)

    assert refused.value.code == ExitCode.USAGE


def test_offline_is_told_with_the_other_way() -> None:
    sentence = sentence_of_ivy(UNRESOLVED)

    assert sentence is not None
    assert "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0" in sentence
    assert "--jars FOLDER" in sentence
    assert "pip install 'kbroker[spark]' installs a pyspark that has one" in sentence


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("4.0.4", None),
        ("4.2.0", None),
        (
            "4.3.0",
            "pyspark 4.3.0 is not tested with kbroker, 4.0 and 4.2 are: pip install 'kbroker[spark]'",
        ),
    ],
)
def test_a_pyspark_that_is_not_tested_is_named(version: str, expected: str | None) -> None:
    assert untested(version) == expected


def test_the_extra_installs_what_all_tests_run_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = [
        [text for text in project["optional-dependencies"][extra] if text.startswith("pyspark")]
        for extra in ("spark", "test")
    ]

    assert pins == [[f"pyspark=={TESTED_LINES[0]}.0"]] * 2


def test_a_cache_with_half_an_entry_is_told_with_its_folders() -> None:
    sentence = sentence_of_ivy(HALF_FILLED)

    assert sentence is not None
    assert "~/.m2/repository/org/apache/kafka/kafka-clients/3.9.0" in sentence
    assert "~/.ivy2.5.2/cache/org.apache.kafka/kafka-clients" in sentence


def test_other_words_of_java_are_not_about_the_connector() -> None:
    assert sentence_of_ivy("WARNING: Using incubator modules: jdk.incubator.vector") is None
