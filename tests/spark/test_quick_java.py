"""Spark starts for tests also where nothing can be kept for the next start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from compat_tests.running.class_archive import ClassArchive
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


def test_classes_that_could_not_be_kept_are_tried_again_an_hour_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip(NO_JAVA)
    tried: list[Path] = []

    def fail(archive: ClassArchive) -> None:
        archive.path.touch(exist_ok=False)
        tried.append(archive.path)

    monkeypatch.setenv("KBROKER_TEST_CACHE", str(tmp_path))
    monkeypatch.setattr(quick_java, "_make", fail)
    options = quick_java._archive_options.__wrapped__

    assert (options(), options(), len(tried)) == ([], [], 1)
    os.utime(tried[0], (0, 0))
    assert (options(), len(tried)) == ([], 2)
