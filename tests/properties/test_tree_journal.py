"""Whatever happens to the process, a tree comes back as it was after some whole transaction."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.embedded.tree_journal import CorruptTreeError, decode_entries, decode_tree_snapshot
from kbroker.zk.tree import TreeError
from tests.fakes.trees.memory_tree_files import FixedClock, MemoryTreeFiles

Step = tuple[str, str, bytes | None]
NAMES = st.sampled_from(["a", "b", "a/x", "a/y", "a/x/z", "b/é"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "ephemeral", "sequential", "set", "delete"]),
        NAMES,
        st.none() | st.binary(max_size=9),
    ),
    max_size=12,
)


async def take(session: TreeSession, step: Step) -> None:
    kind, name, data = step
    path = f"/{name}"
    if kind == "set":
        await session.set(path, data)
    elif kind == "delete":
        await session.delete(path)
    else:
        await session.create(
            path, data, ephemeral=kind == "ephemeral", sequential=kind == "sequential"
        )


async def history(files: MemoryTreeFiles, steps: list[Step], compact_bytes: int) -> list[object]:
    """Take the steps (a refused one changes nothing); the persistent nodes after each."""
    tree = EmbeddedTree(FixedClock(), files, compact_bytes=compact_bytes)
    states = [persistent(tree)]
    session = tree.session()
    for step in steps:
        try:
            await take(session, step)
        except TreeError:
            continue
        states.append(persistent(tree))
    return states


def persistent(tree: EmbeddedTree) -> object:
    return sorted(
        (path, data, stat.czxid, stat.mzxid, stat.version)
        for path, data, stat in tree.dump()
        if not stat.ephemeral_owner
    )


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_journal_cut_at_any_byte_holds_a_prefix_of_the_transactions(steps: list[Step]) -> None:
    files = MemoryTreeFiles()
    states = asyncio.run(history(files, steps, 1 << 20))
    journal = files.snapshot()["tree.journal"]
    counts = []
    for size in range(len(journal) + 1):
        cut = EmbeddedTree(FixedClock(), MemoryTreeFiles({"tree.journal": journal[:size]}))
        # The first transaction is the opening of the session.
        counts.append(max(sum(1 for _ in decode_entries(journal[:size])) - 1, 0))
        assert persistent(cut) == states[counts[-1]]
    assert counts == sorted(counts)
    assert counts[-1] == len(states) - 1


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 400))
def test_compaction_at_any_moment_loses_nothing(steps: list[Step], compact_bytes: int) -> None:
    files = MemoryTreeFiles()
    states = asyncio.run(history(files, steps, compact_bytes))
    again = EmbeddedTree(FixedClock(), MemoryTreeFiles(files.snapshot()))
    assert persistent(again) == states[-1]


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_snapshot_with_the_journal_it_replaced_is_the_same_tree(steps: list[Step]) -> None:
    files = MemoryTreeFiles()
    states = asyncio.run(history(files, steps, 1 << 20))
    journal = files.snapshot()["tree.journal"]
    compacted = MemoryTreeFiles(files.snapshot())
    EmbeddedTree(FixedClock(), compacted, compact_bytes=0).session()
    both = {"tree.snapshot": compacted.snapshot()["tree.snapshot"], "tree.journal": journal}
    assert persistent(EmbeddedTree(FixedClock(), MemoryTreeFiles(both))) == states[-1]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_transactions_or_a_named_refusal(data: bytes) -> None:
    assert list(decode_entries(b"KBTJ\x00\x00\x00\x01" + data)) == []
    with pytest.raises(CorruptTreeError, match=r"tree\.snapshot"):
        decode_tree_snapshot(data)


def test_a_flipped_bit_in_a_snapshot_is_found() -> None:
    files = MemoryTreeFiles()
    asyncio.run(history(files, [("create", "a", b"data"), ("create", "b", None)], 0))
    snapshot = bytearray(files.snapshot()["tree.snapshot"])
    snapshot[-1] ^= 1
    with pytest.raises(CorruptTreeError, match="checksum"):
        decode_tree_snapshot(bytes(snapshot))


def test_a_journal_damaged_in_the_middle_is_kept_and_its_head_applied() -> None:
    files = MemoryTreeFiles()
    steps: list[Step] = [("create", "a", b"data"), ("create", "b", None), ("create", "c", b"x")]
    states = asyncio.run(history(files, steps, 1 << 20))
    journal = files.snapshot()["tree.journal"]
    ends = [8, *(position for _, position in decode_entries(journal))]
    wrong = []

    for byte in range(8, len(journal)):
        damaged = bytearray(journal)
        damaged[byte] ^= 1 << byte % 8
        found = MemoryTreeFiles({"tree.journal": bytes(damaged)})
        tree = EmbeddedTree(FixedClock(), found)
        kept = found.snapshot().get("tree.journal.damaged")
        is_last = byte >= ends[-2]
        if persistent(tree) not in states or kept != (None if is_last else bytes(damaged)):
            wrong.append(byte)

    assert wrong == []


WRITER = """
import asyncio, os, sys
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from tests.fakes.trees.disk_tree_files import DiskTreeFiles
from tests.fakes.trees.memory_tree_files import FixedClock

async def main():
    session = EmbeddedTree(FixedClock(), DiskTreeFiles(sys.argv[1]), compact_bytes=3000).session()
    number = 0
    while True:
        await session.create(f"/n{number}", b"x" * 20)
        os.write(1, f"{number}\\n".encode())
        number += 1

asyncio.run(main())
"""


def test_what_was_answered_survives_kill_9(tmp_path: Path) -> None:
    from tests.fakes.trees.disk_tree_files import DiskTreeFiles

    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as writer:
        assert writer.stdout is not None
        for _ in range(300):
            last = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        last = max([last, *map(int, writer.stdout.read().split(b"\n")[:-1])])
    tree = EmbeddedTree(FixedClock(), DiskTreeFiles(str(tmp_path)))
    names = {path for path, _, _ in tree.dump()}
    assert {f"/n{number}" for number in range(last + 1)} <= names
    assert len(names) <= last + 3
