"""Access to the log directories that Apache Kafka brokers wrote, kept packed under
tests/golden/logs.

`<version>-<state>.tar.gz` is a log directory; beside it lie, gzipped, what a Java client read from
it (`.expected.jsonl`), what Kafka's dump tool said of every file (`.segments.jsonl`) and, for
directories of a killed broker, name and size of every file after the real broker had recovered them
(`.after-recovery.tsv`).
"""

from __future__ import annotations

import gzip
import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

_HOME = Path(__file__).parent / "logs"

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
)


@cache
def files(name: str) -> dict[str, bytes]:
    """Content of a log directory by path: `plain-0/00000000000000000000.log`."""
    content = {}
    with tarfile.open(_HOME / f"{name}.tar.gz") as archive:
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
    text = gzip.decompress((_HOME / f"{name}.{kind}.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def sizes_after_recovery(name: str) -> dict[str, int]:
    """Size of every file after the real broker recovered the directory and stopped."""
    text = gzip.decompress((_HOME / f"{name}.after-recovery.tsv.gz").read_bytes()).decode()
    rows = (line.split("\t") for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if row[1].isdigit()}


def damage(name: str) -> dict[str, str]:
    """What was done to which file of a damaged directory."""
    text = gzip.decompress((_HOME / f"{name}.jsonl.gz").read_bytes()).decode()
    return {row["file"]: row["damage"] for row in map(json.loads, text.splitlines())}
