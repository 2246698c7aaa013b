"""Whether a start has to ask about data of Apache Kafka, and that a look leaves no trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.server.adoption.adopt_option import AdoptionNeededError
from tests.unit.server.adoption.test_adoption import FILES, adoption, kafka_data


def listing(path: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(entry): (
            entry.stat().st_mtime_ns,
            entry.stat().st_ctime_ns,
            entry.read_bytes() if entry.is_file() else b"",
        )
        for entry in (path, *path.rglob("*"))
    }


def test_without_agreement_nothing_changes(tmp_path: Path) -> None:
    kafka_data(tmp_path)
    before = listing(tmp_path)

    with pytest.raises(AdoptionNeededError, match="would adopt 1 topic with 1 partition"):
        adoption(tmp_path, is_agreed=False).check_agreed()

    assert listing(tmp_path) == before


def test_a_lock_that_was_there_stays_as_it_is(tmp_path: Path) -> None:
    (kafka_data(tmp_path) / ".lock").touch()
    before = listing(tmp_path)

    with pytest.raises(AdoptionNeededError):
        adoption(tmp_path, is_agreed=False).check_agreed()

    assert listing(tmp_path) == before


def test_a_directory_that_is_in_use_is_not_looked_at(tmp_path: Path) -> None:
    lock = FILES.lock(f"{kafka_data(tmp_path)}/.lock")
    assert lock is not None

    with pytest.raises(LogDirectoryError, match="in use by another broker"):
        adoption(tmp_path, is_agreed=False).check_agreed()

    lock.release()


@pytest.mark.parametrize("name", ["kbroker-tree.journal", "kbroker-tree.snapshot"])
def test_a_directory_of_ones_own_needs_no_agreement(tmp_path: Path, name: str) -> None:
    (kafka_data(tmp_path) / name).touch()

    adoption(tmp_path, is_agreed=False).check_agreed()


def test_a_directory_without_partitions_needs_no_agreement(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "backup-2024").mkdir()

    adoption(tmp_path, tmp_path / "new", is_agreed=False).check_agreed()


def test_a_tree_in_the_second_directory_is_pointed_at(tmp_path: Path) -> None:
    kafka_data(tmp_path / "a")
    (kafka_data(tmp_path / "b", name="logs-0") / "kbroker-tree.journal").touch()

    with pytest.raises(LogDirectoryError, match=r"/b: name that directory first in log\.dirs"):
        adoption(tmp_path / "a", tmp_path / "b", is_agreed=False).check_agreed()


def test_a_start_over_ones_own_data_does_not_load_what_adoption_needs() -> None:
    code = "import sys, kbroker.server.broker.kafka_server; print('kbroker.server.adoption.adoption' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
