"""Injures files of a sound data directory, one at a time, and asks `log verify` for it.

`python -m tests.faults.verify_injuries --rounds 2000 --seed 7` is the long form of the test beside
it. Some injuries cannot be known: a topic id is as good as another, an index that lost whole
entries at its end is only coarser.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from kbroker.inspection.data_directory import partition_directory
from kbroker.inspection.directory_check import check_partition
from kbroker.inspection.finding import Findings, Severity
from kbroker.inspection.log_walk import DEAD, CheckOptions
from kbroker.log.disk.file_system import RealFileSystem
from tests.golden import golden_logs

DIRECTORY = "3.9.2-clean"
ZEROS_MAX = 20


@dataclass
class Outcome:
    """Injuries by kind of file and kind of injury, and which of them were not found."""

    injuries: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: list[tuple[str, str, int]] = field(default_factory=list)

    def missed_in(self, suffix: str) -> list[tuple[str, str, int]]:
        return [miss for miss in self.missed if miss[0].endswith(suffix)]


def injured(data: bytes, how: str, at: int, chance: random.Random) -> bytes:
    if how == "flip":
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if how == "cut":
        return data[:at]
    zeros = min(chance.randrange(1, ZEROS_MAX), len(data) - at)
    return data[:at] + b"\0" * zeros + data[at + zeros :]


def is_found(partition: Path) -> bool:
    findings = Findings()
    check_partition(
        RealFileSystem(),
        partition_directory(RealFileSystem(), str(partition)),
        CheckOptions(is_deep=True),
        findings,
    )
    return any(f.severity >= Severity.WARNING or f.advice == DEAD for f in findings.all())


def hunt(target: Path, rounds: int, seed: int) -> Outcome:
    """Injure and look, `rounds` times; the directory is unpacked below `target`."""
    chance = random.Random(seed)
    directory = golden_logs.unpack(DIRECTORY, target)
    files = golden_logs.files(DIRECTORY)
    paths = sorted(path for path, data in files.items() if data and "/" in path)
    outcome = Outcome()
    for _ in range(rounds):
        path = chance.choice(paths)
        how = chance.choice(["flip", "cut", "zeros"])
        at = chance.randrange(len(files[path]))
        data = injured(files[path], how, at, chance)
        if data == files[path]:
            continue
        (directory / path).write_bytes(data)
        outcome.injuries[path.rpartition(".")[2].rpartition("/")[2], how] += 1
        if not is_found((directory / path).parent):
            outcome.missed.append((path, how, at))
        (directory / path).write_bytes(files[path])
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as target:
        outcome = hunt(Path(target), arguments.rounds, arguments.seed)
    for (suffix, how), count in sorted(outcome.injuries.items()):
        sys.stdout.write(f"{suffix:26} {how:6} {count:6}\n")
    for path, how, at in outcome.missed:
        sys.stdout.write(f"not found: {how} at {at} in {path}\n")


if __name__ == "__main__":
    main()
