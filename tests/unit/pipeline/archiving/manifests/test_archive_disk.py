"""A rename that never replaces a file, on a real disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kbroker.log.disk.file_system import StorageError
from kbroker.pipeline.archiving.manifests.archive_disk import RealArchiveDisk, disk_sentences
from kbroker.pipeline.errors import PipelineError


def no_links(source: str, target: str) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_gets_its_new_name(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    (tmp_path / "old").write_text("content")

    RealArchiveDisk().rename_new(str(tmp_path / "old"), str(tmp_path / "new"))

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("new", "content")]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_is_there_stays_and_so_does_the_other(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    (tmp_path / "old").write_text("mine")
    (tmp_path / "new").write_text("yours")

    with pytest.raises(StorageError) as caught:
        RealArchiveDisk().rename_new(str(tmp_path / "old"), str(tmp_path / "new"))

    assert caught.value.errno == errno.EEXIST
    assert (tmp_path / "old").read_text() == "mine"
    assert (tmp_path / "new").read_text() == "yours"


def test_other_trouble_is_told_with_the_place(tmp_path: Path) -> None:
    target = str(tmp_path / "gone" / "new")
    (tmp_path / "old").write_text("content")

    with (
        pytest.raises(PipelineError, match=f"cannot be written: create {target}: No such file"),
        disk_sentences("/archive"),
    ):
        RealArchiveDisk().rename_new(str(tmp_path / "old"), target)
