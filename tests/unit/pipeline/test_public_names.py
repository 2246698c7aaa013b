"""What notebooks import from `kbroker.pipeline` is loaded when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kbroker import pipeline


def test_the_package_loads_neither_spark_nor_a_job() -> None:
    heavy = ("kbroker.pipeline.", "pyspark", "pyarrow")

    assert [name for name in loaded_by("import kbroker.pipeline") if name.startswith(heavy)] == []


def test_a_mirror_and_the_lag_load_nothing_of_spark() -> None:
    loaded = loaded_by("from kbroker.pipeline import lag, mirror")

    assert not loaded & {"numpy", "pandas", "pyarrow", "pyspark"}


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        capture_output=True,
        check=True,
        text=True,
    )
    return set(done.stdout.split())


def test_every_public_name_is_there() -> None:
    found = {name: getattr(pipeline, name) for name in pipeline.__all__}

    assert {name for name, each in found.items() if each.__name__ != name} == set()


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'archives'"):
        _ = pipeline.archives
