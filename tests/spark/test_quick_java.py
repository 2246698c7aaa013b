"""Spark starts for tests also where nothing can be kept for the next start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compat_tests.spark import quick_java
from compat_tests.spark.session import NO_JAVA


@pytest.mark.spark
def test_without_a_place_to_keep_classes_java_starts_as_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip(NO_JAVA)
    (tmp_path / "file").touch()
    monkeypatch.setenv("KBROKER_TEST_CACHE", str(tmp_path / "file" / "cache"))
    quick_java._archive_options.cache_clear()

    try:
        assert "-XX:SharedArchiveFile" not in quick_java.quick_java()["SPARK_SUBMIT_OPTS"]
    finally:
        quick_java._archive_options.cache_clear()
