"""The home that Spark is started with, made of links to the installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.pipeline.spark_job.spark_home import quick_home

pyspark = pytest.importorskip("pyspark")
PACKAGE = Path(pyspark.__file__).parent


def test_all_of_spark_is_there_and_pyspark_is_a_folder_of_its_name(tmp_path: Path) -> None:
    home = quick_home(tmp_path, {})

    assert home is not None
    own = {each.name for each in PACKAGE.iterdir() if each.is_dir()}
    assert {each.name for each in home.iterdir()} == own
    assert (home / "bin" / "spark-submit").samefile(PACKAGE / "bin" / "spark-submit")
    zipped = {each.name for each in (PACKAGE / "python" / "lib").iterdir()}
    libraries = home / "python" / "lib"
    assert {each.name for each in libraries.iterdir()} == zipped
    assert (libraries / "pyspark.zip" / "pyspark" / "daemon.py").samefile(PACKAGE / "daemon.py")
    (py4j,) = libraries.glob("py4j-*.zip/py4j/java_gateway.py")
    assert py4j.is_file()


def test_who_has_a_home_of_spark_keeps_it(tmp_path: Path) -> None:
    assert quick_home(tmp_path, {"SPARK_HOME": "/opt/spark"}) is None
    assert list(tmp_path.iterdir()) == []


def test_where_no_links_can_be_made_spark_has_its_own_home(tmp_path: Path) -> None:
    (tmp_path / "spark-home").touch()

    assert quick_home(tmp_path, {}) is None
