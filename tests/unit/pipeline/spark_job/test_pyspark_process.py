from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from zipimport import zipimporter

import pytest

from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.pyspark_process import (
    as_sentences,
    is_pushing_filters,
    spare_process,
)

HIDING = "SPARK_HIDE_TRACEBACK"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let this process be one that was started for a module, as `python -m` does."""

    def start(module: str) -> None:
        main = ModuleType("__main__")
        main.__spec__ = ModuleSpec(module, None)
        monkeypatch.setitem(sys.modules, "__main__", main)

    monkeypatch.setenv(HIDING, "")
    return start


@as_sentences()
def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("module", ["pyspark.daemon", "pyspark.sql.worker.plan_data_source_read"])
def test_a_process_of_pyspark_hands_on_a_sentence_alone(
    runs: Callable[[str], None], module: str
) -> None:
    runs(module)

    with pytest.raises(PipelineError, match="a sentence"):
        fail(PipelineError("a sentence"))

    assert os.environ[HIDING] == "1"


def test_a_fault_of_ours_keeps_its_traceback(runs: Callable[[str], None]) -> None:
    runs("pyspark.daemon")

    with pytest.raises(ValueError, match="a fault"):
        fail(ValueError("a fault"))

    assert os.environ[HIDING] == ""


def test_a_persons_own_process_is_left_as_it_is(runs: Callable[[str], None]) -> None:
    runs("pytest")

    with pytest.raises(PipelineError):
        fail(PipelineError("a sentence"))

    assert os.environ[HIDING] == ""


def test_the_process_that_is_told_filters_is_known(runs: Callable[[str], None]) -> None:
    runs("pyspark.daemon")
    assert not is_pushing_filters()

    runs("pyspark.sql.worker.data_source_pushdown_filters")
    assert is_pushing_filters()


@pytest.mark.parametrize(
    ("module", "is_spared"), [("pyspark.daemon", True), ("pyspark.worker", True), ("pytest", False)]
)
def test_importers_of_zip_files_are_left_to_be_made_again_by_processes_of_pyspark_alone(
    runs: Callable[[str], None],
    module: str,
    is_spared: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_module.py", "ANSWER = 42\n")
    monkeypatch.syspath_prepend(str(archive))
    kept = {**sys.path_importer_cache, str(archive): zipimporter(str(archive))}
    monkeypatch.setattr(sys, "path_importer_cache", kept)
    runs(module)

    spare_process()
    try:
        assert (str(archive) not in sys.path_importer_cache) is is_spared
        assert __import__("zipped_module").ANSWER == 42
    finally:
        sys.modules.pop("zipped_module", None)
