"""Access to the log directories that Apache Kafka brokers wrote, kept packed under
tests/golden/logs.

`<version>-<state>.tar.gz` is a log directory; beside it lie, gzipped, what a Java client read from
it (`.expected.jsonl`), what Kafka's dump tool said of every file (`.segments.jsonl`) and, for
directories of a killed broker, name and size of every file after the real broker had recovered them
(`.after-recovery.tsv`). `.after-restart.tsv`: digest of every file after a start and a clean stop of
Apache Kafka over a copy (`record_restarts`).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

HOME = Path(__file__).parent / "logs"

CLEAN = ("3.9.2-clean", "4.3.1-clean")
UNCLEAN = ("3.9.2-unclean", "4.3.1-unclean")
DAMAGED = ("3.9.2-damaged", "4.3.1-damaged")
OLD_FORMATS = "3.9.2-ibp28"
COMPACTED = (
    "3.9.2-compaction-before",
    "3.9.2-compaction-after-1",
    "3.9.2-compaction-after-2",
    "4.3.1-compaction-before",
    "4.3.1-compaction-after-1",
    "4.3.1-compaction-after-2",
)

IMAGES = (*CLEAN, *UNCLEAN, *DAMAGED, OLD_FORMATS, *COMPACTED)
_SNAPSHOT_ENTRIES_AT = 10  # after version, CRC and count
_SNAPSHOT_ENTRY_SIZE = 46


@cache
def files(name: str) -> dict[str, bytes]:
    """Content of a log directory by path: `plain-0/00000000000000000000.log`."""
    content = {}
    with tarfile.open(HOME / f"{name}.tar.gz") as archive:
        for member in archive:
            stream = archive.extractfile(member)
            if stream is not None:
                content[member.name.partition("/")[2]] = stream.read()
    return content


def unpack(name: str, target: Path) -> Path:
    """Write a log directory below `target`; its path."""
    for path, content in files(name).items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return target


def lines(name: str, kind: str) -> list[dict[str, Any]]:
    """The rows of `<name>.<kind>.jsonl`: `expected`, `segments`."""
    text = gzip.decompress((HOME / f"{name}.{kind}.jsonl.gz").read_bytes())
    rows: list[dict[str, Any]] = msgspec.json.Decoder().decode_lines(text)
    return rows


def sizes_after_recovery(name: str) -> dict[str, int]:
    """Size of every file after the real broker recovered the directory and stopped."""
    text = gzip.decompress((HOME / f"{name}.after-recovery.tsv.gz").read_bytes()).decode()
    rows = (line.split("\t") for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if row[1].isdigit()}


def checkpoints_after_recovery(name: str) -> dict[str, str]:
    """Text of all checkpoint files then, by path."""
    text = gzip.decompress((HOME / f"{name}.after-recovery.checkpoints.json.gz").read_bytes())
    checkpoints: dict[str, str] = json.loads(text)
    return checkpoints


def damage(name: str) -> dict[str, str]:
    """Return what was done to which file of a damaged directory."""
    text = gzip.decompress((HOME / f"{name}.jsonl.gz").read_bytes()).decode()
    return {row["file"]: row["damage"] for row in map(json.loads, text.splitlines())}


def sizes(root: Path) -> dict[str, int]:
    """Size of every file of a data directory, by path."""
    return {str(path.relative_to(root)): path.stat().st_size for path in _files_below(root)}


def digests(root: Path) -> dict[str, str]:
    """Size and digest of every file of a data directory, by path. What stands in no order (lines of
    the data directory's checkpoints, entries of producer snapshots: Kafka writes them as its hash
    maps have them) is sorted first.
    """
    return {
        str(path.relative_to(root)): _digest(path, path.parent == root)
        for path in _files_below(root)
    }


def digests_after_restart(name: str) -> dict[str, str]:
    """The same of a directory that Apache Kafka opened and closed."""
    text = gzip.decompress((HOME / f"{name}.after-restart.tsv.gz").read_bytes()).decode()
    return dict(line.split("\t") for line in text.splitlines())


def _files_below(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")


def _digest(path: Path, is_in_root: bool) -> str:
    content = path.read_bytes()
    parts = [content]
    if path.suffix == ".snapshot":
        entries = content[_SNAPSHOT_ENTRIES_AT:]
        starts = range(0, len(entries), _SNAPSHOT_ENTRY_SIZE)
        parts = sorted(entries[start : start + _SNAPSHOT_ENTRY_SIZE] for start in starts)
    elif is_in_root and path.name.endswith("-checkpoint"):
        parts = sorted(content.splitlines())
    return f"{len(content)} {hashlib.sha256(b'|'.join(parts)).hexdigest()[:20]}"
