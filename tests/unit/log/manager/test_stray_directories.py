"""Directories of topics that the cluster does not have."""

from __future__ import annotations

from pathlib import Path

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.manager.replaced_directories import StrayDirectories


def test_strays_of_one_topic_are_renamed_with_their_files(tmp_path: Path) -> None:
    strays = StrayDirectories(RealFileSystem())
    for topic, partition in (("a-b", 0), ("a-b", 7), ("other", 0)):
        directory = tmp_path / f"{topic}-{partition}"
        directory.mkdir()
        (directory / "file").write_text(f"{topic} {partition}")
        strays.add(topic, str(directory))

    assert [strays.size_bytes(path) for path in strays.paths()] == [5, 5, 7]

    strays.set_aside("a-b")
    strays.set_aside("a-b")

    assert (strays.paths(), len(strays.renamed)) == ([str(tmp_path / "other-0")], 2)
    assert strays.size_bytes(str(tmp_path / "gone")) == 0

    found = {path.parent.name.partition(".")[0]: path.read_text() for path in tmp_path.glob("*/*")}
    assert found == {"a-b-0": "a-b 0", "a-b-7": "a-b 7", "other-0": "other 0"}
    assert len(list(tmp_path.glob("a-b-?.*-stray"))) == 2
    assert (tmp_path / "other-0").is_dir()
