"""What Spark leaves in the working directory is removed, and what is somebody else's stays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.pipeline.spark_job.artifacts import artifacts_of, has_artifacts, remove_artifacts


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spark_with(folder: Path) -> Any:
    java_path = SimpleNamespace(toString=lambda: str(folder))
    manager = SimpleNamespace(artifactRootDirectory=lambda: java_path)
    companion = SimpleNamespace(**{"MODULE$": manager})
    package = SimpleNamespace(artifact=SimpleNamespace(**{"ArtifactManager$": companion}))
    spark = SimpleNamespace(sql=package)
    apache = SimpleNamespace(spark=spark)
    return SimpleNamespace(_jvm=SimpleNamespace(org=SimpleNamespace(apache=apache)))


def folder_in(place: Path) -> Path:
    folder = place / "artifacts" / "spark-1"
    (folder / "session").mkdir(parents=True)
    return folder


def test_the_folder_of_a_session_goes_with_the_directory_that_spark_made(here: Path) -> None:
    assert not has_artifacts()
    folder = artifacts_of(spark_with(folder_in(here)))
    assert folder is not None

    remove_artifacts(folder, keeps_parent=False)

    assert list(here.iterdir()) == []


@pytest.mark.parametrize("keeps_parent", [False, True])
def test_a_directory_that_was_there_or_is_used_stays(keeps_parent: bool, here: Path) -> None:
    folder = folder_in(here)
    if not keeps_parent:
        (here / "artifacts" / "spark-2").mkdir()
    assert has_artifacts()

    remove_artifacts(folder, keeps_parent=keeps_parent)

    assert not folder.exists()
    assert (here / "artifacts").exists()


def test_a_spark_that_keeps_them_elsewhere_is_left_alone(here: Path) -> None:
    assert artifacts_of(spark_with(Path("/tmp/artifacts-1"))) is None
    assert artifacts_of(SimpleNamespace(_jvm=SimpleNamespace())) is None
