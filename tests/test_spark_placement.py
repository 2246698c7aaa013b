"""Where xdist runs Spark tests: all in one process, and before the others; and what its processes
report.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = (sys.executable, "-m", "pytest", "-q", "-pno:hypothesispytest", "-pno:asyncio")
TEST = """
import os
from pathlib import Path

def test_one():
    with open({log!r}, "a") as log:
        log.write(f"{{os.environ['PYTEST_XDIST_WORKER']}} {name}\\n")

def test_two():
    test_one()
"""
ENDS = """
import pytest

@pytest.fixture
def missing():
    raise OSError("nothing to set up")

@pytest.fixture
def left():
    yield
    raise OSError("nothing to tear down")

def test_without_its_fixture(missing): pass
def test_whose_fixture_stays(left): pass
def test_that_fails(): assert False
@pytest.mark.skip
def test_that_is_left_out(): pass
def test_that_is_fine(): pass
"""
CONFIG = "[pytest]\naddopts = --import-mode=importlib --strict-markers\nmarkers =\n    spark: x\n"


def test_all_spark_tests_are_one_unit_of_work_and_the_first(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    names = ["a/test_a.py", "b/spark/test_b.py", "c/spark/test_c.py", "d/test_d.py", "e/test_e.py"]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(TEST.format(log=str(log), name=name))
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(CONFIG)
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}

    done = subprocess.run(
        [*PYTEST, "-n", "2", "--dist", "loadfile", str(tmp_path)],
        cwd=tmp_path, env={**plain, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    ran = [line.split() for line in log.read_text().splitlines()]
    order = [name for _, name in ran]
    workers = {name: {worker for worker, each in ran if each == name} for name in names}
    of_spark = workers["b/spark/test_b.py"] | workers["c/spark/test_c.py"]
    assert len(ran) == 2 * len(names)
    assert len(of_spark) == 1
    assert all(len(each) == 1 for each in workers.values())
    (spark_worker,) = of_spark
    first = next(name for worker, name in ran if worker == spark_worker)
    assert first == "b/spark/test_b.py", order


def test_whatever_goes_wrong_before_and_after_a_test_is_reported(tmp_path: Path) -> None:
    (tmp_path / "test_ends.py").write_text(ENDS)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(CONFIG)
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}

    done = subprocess.run(
        [*PYTEST, "-n", "1", "--dist", "loadfile", str(tmp_path)],
        cwd=tmp_path, env={**plain, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert "1 failed, 2 passed, 1 skipped, 2 errors in" in done.stdout, done.stdout + done.stderr
    assert "nothing to set up" in done.stdout
    assert "nothing to tear down" in done.stdout


def test_the_session_is_shared_from_its_own_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_one(spark): pass\n")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(CONFIG)
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}

    done = subprocess.run(
        [*PYTEST, "-p", "no:xdist", str(tmp_path)],
        cwd=tmp_path, env={**plain, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert done.returncode != 0
    assert "move it to a folder `spark`" in done.stdout + done.stderr
