"""Injured directories recovered twice, by Apache Kafka 3.9.2 and here, and compared byte for byte:
`python -m tests.integration.recovery_hunt --rounds N --seed S`.

Each round writes a directory with everything a log can hold, and topics whose settings change at
random moments, with cleanings between; kills it, and injures most partitions:
the end of the last segment cut, garbage or zeros behind it, a bit of its last batches flipped, an
index or a snapshot deleted or cut. Now and then recovery points and what is known of gaps are lost.
Left out is where the two differ on purpose, see `draw_injury` and `is_known`.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.shared_zookeeper import fresh_chroot
from kbroker.log.disk.checkpoint import read_offset_checkpoint
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import (
    GAPLESS_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    parse_directory_name,
)
from kbroker.log.segments.file_records import FileRecords
from kbroker.record.record_batch import MAGIC
from tests.golden import golden_logs
from tests.integration.apache_tree import latest_epoch, partitions_by_topic, write_tree
from tests.integration.changing_topics import write_changing
from tests.integration.directory_writer import (
    DirectoryWriter,
    Settings,
    WallClock,
    open_logs,
    overrides,
)
from tests.integration.written_directory import write_everything

Injury = Callable[[Path, random.Random], None]
_LIMIT_S = 60
_LAST_BYTES = 600  # so much of a segment's end is cut at most
# The last bytes of a batch are covered by its checksum. A flipped base offset is not: Kafka would
# serve it, here the batch is cut off.
_COVERED_BYTES = 40
_LOST_CHECKPOINTS = 0.3


def cut(partition: Path, draw: random.Random) -> None:
    log = max(partition.glob("*.log"))
    size = log.stat().st_size
    if size:
        _resize(log, size - draw.randint(1, min(size, _LAST_BYTES)))


def garbage(partition: Path, draw: random.Random) -> None:
    with max(partition.glob("*.log")).open("ab") as file:
        file.write(draw.randbytes(draw.randint(1, 300)))


def zeros(partition: Path, draw: random.Random) -> None:
    with max(partition.glob("*.log")).open("ab") as file:
        file.write(bytes(draw.randint(1, 300)))


def flip(partition: Path, draw: random.Random) -> None:
    log = max(partition.glob("*.log"))
    content = bytearray(log.read_bytes())
    if content:
        position = draw.randrange(max(0, len(content) - _COVERED_BYTES), len(content))
        content[position] ^= 1 << draw.randrange(8)
        log.write_bytes(content)


def lose_index(partition: Path, draw: random.Random) -> None:
    kind = draw.choice(("index", "timeindex", "txnindex", "snapshot"))
    files = sorted(partition.glob(f"*.{kind}"))
    if files:
        draw.choice(files).unlink()


def cut_index(partition: Path, draw: random.Random) -> None:
    files = sorted([*partition.glob("*index"), *partition.glob("*.snapshot")])
    file = draw.choice(files)
    _resize(file, draw.randint(0, file.stat().st_size))


def nothing(_partition: Path, _draw: random.Random) -> None:
    """Only killed."""


INJURIES: tuple[Injury, ...] = (cut, garbage, zeros, flip, lose_index, cut_index, nothing)


def draw_injury(partition: Path, noted: int, draw: random.Random) -> Injury:
    """An injury after which nothing may differ; `noted` is the recovery point.

    A log that ends before its noted start is thrown away by Kafka; here its records stay, as the
    number may be what is wrong. And below the recovery point, which cleanings and DeleteRecords have
    moved, Kafka believes every offset and time index; here they are checked and made anew. So are
    producers and transactions of a log that ends before its recovery point.
    """
    injury = draw.choice(INJURIES)
    name = partition.name
    ends_earlier = noted > int(max(partition.glob("*.log")).stem) and name.startswith("changing")
    if injury in {cut, flip} and (ends_earlier or name.startswith("all-deleted")):
        return nothing
    if (noted or name.startswith(("compacted", "changing"))) and injury in {lose_index, cut_index}:
        return nothing
    return injury


def is_known(root: Path, name: str, ours: str) -> bool:
    """Whether a file of Kafka's is not here on purpose: a snapshot where the batches of format 2
    end and messages of an older one follow, which no start looks for.
    """
    partition = (root / name).parent
    log = max((path for path in partition.glob("*.log") if path.stat().st_size), default=None)
    if ours != "-" or not name.endswith(".snapshot") or log is None:
        return False
    headers = [header for _, header in FileRecords(RealFileSystem(), str(log)).headers()]
    newest = max((h.next_offset for h in headers if h.magic == MAGIC), default=int(log.stem))
    return headers[-1].magic < MAGIC and int((root / name).stem) == newest


def injured(root: Path, draw: random.Random) -> dict[str, str]:
    """Injure a directory; what was done, by partition."""
    done = {}
    points = read_offset_checkpoint(RealFileSystem(), str(root / RECOVERY_POINT_CHECKPOINT_FILE))
    for partition in sorted(root.glob("*-*/")):
        topic_partition = parse_directory_name(partition.name)
        assert topic_partition is not None
        injury = draw_injury(partition, points.get(topic_partition, 0), draw)
        injury(partition, draw)
        done[partition.name] = injury.__name__
    for name in (RECOVERY_POINT_CHECKPOINT_FILE, GAPLESS_OFFSET_CHECKPOINT_FILE):
        if draw.random() < _LOST_CHECKPOINTS:
            (root / name).unlink()  # one that cannot be read keeps Kafka from starting
            done[name] = "lost"
    return done


@dataclass(frozen=True)
class Injured:
    """A directory that was killed and injured: as it was then, and as Apache Kafka recovered it."""

    root: Path
    there: Path
    done: dict[str, str]
    clock: WallClock
    settings: Settings

    def differences(self) -> list[str]:
        """A line for every file that a recovery here leaves otherwise."""
        here = self.root.parent / "here"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.root, here)
        recover_here(here, self.clock, self.settings)
        ours, theirs = golden_logs.digests(here), golden_logs.digests(self.there)
        return [
            f"{name} after {self.done.get(name.partition('/')[0])}: "
            f"here {ours.get(name, '-')}, there {theirs.get(name, '-')}"
            for name in sorted(ours | theirs)
            if ours.get(name) != theirs.get(name) and not is_known(here, name, ours.get(name, "-"))
        ]


def recover_there(root: Path, settings: Settings) -> Path:
    """A copy of a directory that Apache Kafka has opened and closed."""
    there = Path(shutil.copytree(root, root.parent / "there"))
    (there / GAPLESS_OFFSET_CHECKPOINT_FILE).unlink(
        missing_ok=True
    )  # not Kafka's: a clean stop here removes it
    connect = fresh_chroot()
    write_tree(connect, there, overrides(partitions_by_topic(there), settings=settings))
    apache = ApacheBroker(there, connect)
    apache.start()
    partitions = sum(map(len, partitions_by_topic(there).values()))
    _wait(lambda: apache.log_text().count(" starts at leader epoch ") >= partitions)
    apache.stop()
    return there


def recover_here(root: Path, clock: WallClock, settings: Settings) -> None:
    """Open and close a directory as the broker does."""
    epochs = {path.name: latest_epoch(path) for path in root.glob("*-*/")}
    logs = open_logs(root, clock, settings)
    for log in logs.all_logs():  # what becoming leader and the replica manager's stop do
        log.leader_epoch_cache.assign(epochs[Path(log.directory).name], log.log_end_offset)
    logs.write_high_watermarks({log.topic_partition: log.high_watermark for log in logs.all_logs()})
    logs.shutdown()


def injured_directory(seed: int, home: Path) -> Injured:
    """Write, kill and injure one, and let Apache Kafka recover it."""
    writer = DirectoryWriter(home / "data")
    write_everything(writer)
    writer.checkpoint()
    draw = random.Random(seed)
    write_changing(writer, draw)
    root = Path(shutil.copytree(home / "data", home / "injured"))
    writer.close()
    done = injured(root, draw)
    there = recover_there(root, writer.settings)
    return Injured(root, there, done, writer.clock, writer.settings)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _resize(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    for seed in range(given.seed, given.seed + given.rounds):
        with tempfile.TemporaryDirectory() as home:
            found = injured_directory(seed, Path(home)).differences()
        lines = [*(f"{seed} {line}" for line in found), f"{seed}: {len(found)}"]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
