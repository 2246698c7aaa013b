"""What Apache Kafka 3.9.2 did to its ZooKeeper: 38 events of a cluster of two brokers, and the tree
at four moments. The files lie in tests/golden/zookeeper, one line per transaction or node.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.trees.recording_tree import Transaction, Write

GOLDEN = Path(__file__).parents[2] / "golden" / "zookeeper"
EVENT_NAMES = [path.stem for path in sorted(GOLDEN.glob("[0-9][0-9]-*.jsonl"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of a dumped tree."""

    path: str
    data: str | None
    is_ephemeral: bool
    version: int
    cversion: int


def number_of(name: str) -> int:
    """Number of an event."""
    return int(name[:2])


def transactions_of(name: str) -> list[Transaction]:
    """Return what was carried out during an event. Refused transactions and openings are left out."""
    lines = map(json.loads, (GOLDEN / f"{name}.jsonl").read_text().splitlines())
    return [Transaction(by=line["by"], writes=_writes(line)) for line in lines if _is_done(line)]


def dumped_tree(name: str) -> dict[str, Node]:
    """A dump, by path."""
    lines = map(json.loads, (GOLDEN / f"{name}.jsonl").read_text().splitlines())
    return {
        line["path"]: Node(
            path=line["path"],
            data=line["data"],
            is_ephemeral=line["ephemeral"],
            version=line["version"],
            cversion=line["cversion"],
        )
        for line in lines
    }


def _is_done(line: dict[str, Any]) -> bool:
    if line["op"] == "multi":
        return all(op["op"] != "error" for op in line["ops"])
    return line["op"] not in ("error", "session-open")


def _writes(line: dict[str, Any]) -> tuple[Write, ...]:
    if line["op"] == "session-close":
        paths = sorted(line["deleted_ephemerals"])
        return tuple(Write(op="session-close", path=path) for path in paths)
    ops = line["ops"] if line["op"] == "multi" else [line]
    return tuple(_write(op) for op in ops)


def _write(op: dict[str, Any]) -> Write:
    version = op.get("version")
    return Write(
        op=op["op"],
        path=op["path"],
        data=op.get("data"),
        # The transaction log holds the version after a check as if it had been a write.
        version=version - 1 if op["op"] == "check" else version,
        ephemeral=op.get("ephemeral", False),
    )
