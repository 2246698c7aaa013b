from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.pipeline.logdir.directory import lock_probe
from kbroker.pipeline.logdir.directory.lock_probe import is_locked

_JAVAS_WAY = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path: Path) -> Iterator[None]:
    command = [sys.executable, "-c", _JAVAS_WAY, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
        process.kill()


def test_a_lock_of_this_process_is_seen_and_kept(tmp_path: Path) -> None:
    lock = RealFileSystem().lock(str(tmp_path / ".lock"))
    assert lock is not None

    assert is_locked(str(tmp_path))
    assert is_locked(str(tmp_path))
    lock.release()

    assert not is_locked(str(tmp_path))


def test_a_lock_as_java_takes_it_is_seen_in_another_process(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path / ".lock"):
        assert is_locked(str(tmp_path))
    assert not is_locked(str(tmp_path))


def test_a_lock_that_the_system_does_not_list_is_found_by_asking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_probe, "_LOCKS", str(tmp_path / "none"))

    with held_by_another_process(tmp_path / ".lock"):
        assert is_locked(str(tmp_path))
    assert not is_locked(str(tmp_path))


def test_a_directory_that_no_broker_ever_used_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_asking_takes_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    assert not is_locked(str(tmp_path))

    lock = RealFileSystem().lock(str(tmp_path / ".lock"))

    assert lock is not None
    lock.release()
