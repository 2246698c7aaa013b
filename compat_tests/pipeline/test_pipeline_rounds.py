"""The short form of `python -m compat_tests.pipeline.rounds`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compat_tests.pipeline.rounds import Rounds, run
from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.spark.quick_java import quick_java


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_an_archive_job_that_is_killed_has_every_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        raise NotAvailableError("no java on PATH (Spark needs Java 17 or 21)")
    for name, value in quick_java().items():
        monkeypatch.setenv(name, value)

    run(Rounds(records=20_000, kills=1, source="logdir", target="kbroker", seed=5), tmp_path)
