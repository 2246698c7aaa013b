"""Files of a broker whose data goes with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbroker.log.disk.temporary_file_system import TemporaryFileSystem


def test_nothing_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    files = TemporaryFileSystem()

    files.write_bytes(f"{tmp_path}/checkpoint", b"0\n0\n", sync=True)
    files.sync(f"{tmp_path}/checkpoint")
    files.sync_directory(str(tmp_path))

    assert synced == []
    assert files.read_bytes(f"{tmp_path}/checkpoint") == b"0\n0\n"
