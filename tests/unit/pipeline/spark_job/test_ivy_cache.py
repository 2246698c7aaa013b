"""What an earlier session fetched is taken from Ivy's cache, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbroker.pipeline.spark_job.ivy_cache import cached_jars, ivy_cache
from kbroker.pipeline.spark_job.kafka_connector import connector_settings
from kbroker.pipeline.spark_job.session import SessionSettings, spark_conf

DESCRIPTION = """<?xml version="1.0" encoding="UTF-8"?>
<ivy-module version="2.0">
  <dependencies>
    <dependency org="org.apache.spark" name="spark-token-provider-kafka-0-10_2.13" rev="4.0.0" conf="a">
    </dependency>
    <dependency org="org.apache.kafka" name="kafka-clients" rev="3.9.0" force="true" conf="a">
    <dependency org="org.apache.commons" name="commons-pool2" rev="2.12.0" force="true" conf="a"/>
    <dependency org="org.apache.hadoop" name="hadoop-minikdc" rev="3.4.1" force="true" conf="test">
    <override org="org.apache.kafka" module="kafka-clients" matcher="exact" rev="3.9.1"/>
  </dependencies>
</ivy-module>
"""
CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0")
PROVIDER = ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0")
CLIENTS = ("org.apache.kafka", "kafka-clients", "3.9.0")
POOL = ("org.apache.commons", "commons-pool2", "2.12.0")
NEEDED = frozenset({PROVIDER[1], CLIENTS[1], POOL[1]})
PACKAGES = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"}


def jar(cache: Path, module: tuple[str, str, str]) -> Path:
    organisation, name, revision = module
    return cache / organisation / name / "jars" / f"{name}-{revision}.jar"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    cache = tmp_path / ".ivy2.5.2" / "cache"
    for module in (CONNECTOR, PROVIDER, CLIENTS, POOL):
        jar(cache, module).parent.mkdir(parents=True)
        jar(cache, module).touch()
    description = cache / CONNECTOR[0] / CONNECTOR[1] / "ivy-4.0.0.xml"
    description.write_text(DESCRIPTION)
    return cache


def test_what_was_fetched_is_given_by_path(cache: Path) -> None:
    jars = [str(jar(cache, module)) for module in (CONNECTOR, PROVIDER, CLIENTS, POOL)]

    assert cached_jars(cache, CONNECTOR, NEEDED) == jars
    assert connector_settings("4.0.0", (), True, cache) == {"spark.jars": ",".join(jars)}
    assert connector_settings("4.0.0", (), False, cache) == {}


@pytest.mark.parametrize("missing", [CONNECTOR, PROVIDER, CLIENTS, POOL])
def test_a_jar_that_is_missing_is_asked_for_with_all_others(
    cache: Path, missing: tuple[str, str, str]
) -> None:
    jar(cache, missing).unlink()

    assert cached_jars(cache, CONNECTOR, NEEDED) is None
    assert connector_settings("4.0.0", (), True, cache) == PACKAGES


def test_another_release_than_the_cached_one_is_asked_for(cache: Path) -> None:
    settings = connector_settings("4.2.0", (), True, cache)

    assert settings["spark.jars.packages"].endswith(":4.2.0")
    assert "spark.jars" not in settings


def test_a_description_that_does_not_name_all_is_not_believed(cache: Path) -> None:
    description = cache / CONNECTOR[0] / CONNECTOR[1] / "ivy-4.0.0.xml"
    description.write_text(DESCRIPTION.replace("commons-pool2", "commons-pool3"))

    assert cached_jars(cache, CONNECTOR, NEEDED) is None


def test_jars_of_ones_own_come_before_those_of_the_cache(cache: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.jar"
    provider = tmp_path / "spark-token-provider-kafka-0-10_2.13-3.5.0.jar"
    mine.touch()
    provider.touch()
    jar(cache, PROVIDER).unlink()

    settings = connector_settings("4.0.0", (str(mine), str(provider)), True, cache)

    fetched = [str(jar(cache, module)) for module in (CONNECTOR, CLIENTS, POOL)]
    assert settings == {"spark.jars": ",".join([str(mine), str(provider), *fetched])}


def test_a_session_takes_the_cache_of_the_home_it_runs_in(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)

    conf = spark_conf(SessionSettings(needs_connector=True), "4.0.0", tmp_path)

    assert str(jar(cache, CONNECTOR)) in conf["spark.jars"].split(",")
    assert "spark.jars.packages" not in conf


@pytest.mark.parametrize("name", ["spark.jars", "spark.jars.ivy", "spark.jars.packages"])
def test_who_tells_spark_of_jars_is_left_to_spark(name: str) -> None:
    assert ivy_cache({name: "x"}, {}) is None
    assert ivy_cache({"spark.driver.memory": "1g"}, {}) is not None


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # of no entry in the list of users

    assert ivy_cache({}, {}) is None


@pytest.mark.parametrize("name", ["PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"])
def test_settings_of_a_spark_of_ones_own_may_tell_of_jars(name: str) -> None:
    assert ivy_cache({}, {name: "x"}) is None
