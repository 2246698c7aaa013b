"""The module by which Spark finds the data source: in the wheel, light, and no trouble to sessions
that want another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_LOOK_UP = """
import json, sys
for name in {hidden!r}:
    sys.modules[name] = None
import pyspark_kbroker
source = getattr(pyspark_kbroker, "DefaultSource", None)
heavy = [name for name in ("pyarrow", "kbroker.pipeline.logdir.columns") if sys.modules.get(name)]
print(json.dumps([source and source.name(), heavy]))
"""


def look_up(*hidden: str) -> list[object]:
    """Name of the source, and what was imported too much, in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", _LOOK_UP.format(hidden=hidden)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[object] = json.loads(done.stdout)
    return found


def test_the_wheel_holds_the_module_that_spark_looks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]

    assert {"kbroker", "pyspark_kbroker"} <= set(included)
    assert (ROOT / "pyspark_kbroker" / "__init__.py").exists()


def test_the_source_is_found_without_what_only_readers_need() -> None:
    pytest.importorskip("pyspark")

    assert look_up() == ["kbroker-log", []]


def test_sessions_go_on_where_the_extra_is_not_installed() -> None:
    assert look_up("pyspark") == [None, []]
