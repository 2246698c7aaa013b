"""What notebooks import from `kbroker.pipeline` is loaded when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kbroker import pipeline


def test_the_package_loads_neither_spark_nor_a_job() -> None:
    code = "import kbroker.pipeline, sys; print(*(each for each in sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    ).stdout.split()

    heavy = ("kbroker.pipeline.", "pyspark", "pyarrow")
    assert [name for name in loaded if name.startswith(heavy)] == []


def test_every_public_name_is_there() -> None:
    found = {name: getattr(pipeline, name) for name in pipeline.__all__}

    assert {name for name, each in found.items() if each.__name__ != name} == set()


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'archives'"):
        _ = pipeline.archives
