"""An archive as its manifests describe it, read without any of kbroker's code: what a person with
nothing but JSON and Parquet would find.

    manifests/<20 digits>.json   {"checksum": "crc32c:...", "content": {...}}, one per step
    data/<topic>/<date>/<hour>/<topic>-<partition>-<first>-<last>.parquet
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastcrc.crc32 import iscsi as crc32c

_MANIFEST = re.compile(r"\d{20}\.json")
_SEALED = re.compile(rb'\{"checksum":\s*"crc32c:([0-9a-f]{8})",\s*"content":\s*(\{.*\})\}', re.S)

Partition = tuple[str, int]


@dataclass
class PublishedArchive:
    """The files that a reader takes, and the offsets that batches dealt with."""

    directory: Path
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # by path
    left: set[str] = field(default_factory=set)  # no longer read, perhaps still on the disk
    ranges: dict[Partition, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    missing: int = 0  # offsets that the manifests say are in no file
    steps: int = 0

    def files_of(self, partition: Partition) -> list[dict[str, Any]]:
        """Data files of a partition, by first offset."""
        found = [
            entry
            for entry in self.files.values()
            if (entry["topic"], entry["partition"]) == partition and entry["kind"] == "data"
        ]
        return sorted(found, key=lambda entry: int(entry["first_offset"]))


def manifest_names(directory: Path) -> list[str]:
    """Manifests that have their final name, in order."""
    folder = directory / "manifests"
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    return sorted(name for name in names if _MANIFEST.fullmatch(name))


def read_published(directory: Path) -> PublishedArchive:
    """Everything published so far; AssertionError where the manifests contradict each other or are
    damaged.
    """
    archive = PublishedArchive(directory)
    owner = None
    for number, name in enumerate(manifest_names(directory)):
        manifest = _unsealed(directory / "manifests" / name)
        assert int(name.removesuffix(".json")) == manifest["number"] == number, name
        owner = owner or manifest["archive_id"]
        assert manifest["archive_id"] == owner, f"{name} is of another archive"
        _apply(archive, manifest)
    return archive


def _unsealed(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    matched = _SEALED.fullmatch(data)
    assert matched is not None, f"{path.name} is half a manifest: {data[:80]!r}"
    assert f"{crc32c(matched[2]):08x}" == matched[1].decode(), f"{path.name} is damaged"
    content: dict[str, Any] = json.loads(matched[2])
    return content


def _apply(archive: PublishedArchive, manifest: dict[str, Any]) -> None:
    archive.steps += 1
    for entry in manifest["ranges"]:
        stretch = (entry["start_offset"], entry["end_offset"])
        archive.ranges[entry["topic"], entry["partition"]].append(stretch)
    archive.missing += sum(hole["missing"] for hole in manifest["holes"])
    for path in manifest["removed"]:
        assert path in archive.files, f"{path} is removed and was never there"
        del archive.files[path]
        archive.left.add(path)
    for path in manifest["deleted"]:
        archive.left.discard(path)
    for entry in manifest["added"]:
        assert entry["path"] not in archive.files, f"{entry['path']} is added twice"
        assert entry["path"] not in archive.left, f"{entry['path']} comes back"
        archive.files[entry["path"]] = entry
