from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.source.pyspark_process import as_sentences, is_pushing_filters

HIDING = "SPARK_HIDE_TRACEBACK"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
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
def test_a_process_of_pyspark_hands_on_a_sentence_alone(runs, module: str) -> None:  # type: ignore[no-untyped-def]
    runs(module)

    with pytest.raises(PipelineError, match="a sentence"):
        fail(PipelineError("a sentence"))

    assert os.environ[HIDING] == "1"


def test_a_fault_of_ours_keeps_its_traceback(runs) -> None:  # type: ignore[no-untyped-def]
    runs("pyspark.daemon")

    with pytest.raises(ValueError, match="a fault"):
        fail(ValueError("a fault"))

    assert os.environ[HIDING] == ""


def test_a_persons_own_process_is_left_as_it_is(runs) -> None:  # type: ignore[no-untyped-def]
    runs("pytest")

    with pytest.raises(PipelineError):
        fail(PipelineError("a sentence"))

    assert os.environ[HIDING] == ""


def test_the_process_that_is_told_filters_is_known(runs) -> None:  # type: ignore[no-untyped-def]
    runs("pyspark.daemon")
    assert not is_pushing_filters()

    runs("pyspark.sql.worker.data_source_pushdown_filters")
    assert is_pushing_filters()
