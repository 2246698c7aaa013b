"""Mutated inputs for whatever reads what strangers send or what lies on a disk, guided by the lines
that they reach: nothing but the errors that a reader declares may leave it, and none may take long.

    python -m tests.faults.fuzz --mutations 2000000 --seed 1
    python -m tests.faults.fuzz --target batches --mutations 100000 --keep

Inputs that reach new lines are mutated again; `--keep` adds them to the corpus, which a test replays.
"""

from __future__ import annotations

import argparse
import base64
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from tests.faults.fuzz_targets import TARGETS, Target

CORPUS = Path(__file__).with_name("fuzz_corpus")
LONGEST_S = 0.05
MOST_GROWTH_MB = 64
_TRACED_EVERY = 8  # a traced reading takes ten times as long
_LARGEST = 4_096  # bytes of an input
_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_KBROKER = f"{Path(__file__).parents[2] / 'kbroker'}/"


@dataclass(slots=True)
class Outcome:
    """All that was found."""

    mutations: int = 0
    findings: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    new: Counter[str] = field(default_factory=Counter)


class Lines:
    """The lines of kbroker that were reached so far."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()
        self._found = 0

    def __enter__(self) -> None:
        self._found = len(self._seen)
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    @property
    def are_new(self) -> bool:
        """Whether the last reading has reached some for the first time."""
        return len(self._seen) > self._found

    def _trace(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith((_KBROKER, "<")):
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._seen.add((id(frame.f_code), frame.f_lineno))
        return self._line


class Fuzz:
    """Mutations of the inputs of one target."""

    def __init__(self, target: Target, seed: int, outcome: Outcome) -> None:
        self._target = target
        self._random = Random(f"{target.name}/{seed}")
        self._outcome = outcome
        self._lines = Lines()
        self._told: set[str] = set()
        self.corpus = list(dict.fromkeys([*target.seeds(), *kept(target.name)]))
        self.grown: list[bytes] = []
        for data in self.corpus:
            with self._lines:
                self._read(data)

    def run(self, mutations: int) -> None:
        """Read so many mutated inputs."""
        for number in range(mutations):
            data = self._mutated()
            if number % _TRACED_EVERY:
                self._timed(data)
                continue
            with self._lines:
                self._read(data)
            if self._lines.are_new:
                self.corpus.append(data)
                self.grown.append(data)
                self._outcome.new[self._target.name] += 1
        self._outcome.mutations += mutations

    def _timed(self, data: bytes) -> None:
        began = time.thread_time()
        self._read(data)
        took_s = time.thread_time() - began
        if took_s > LONGEST_S:  # once more: it may have been a collection of garbage
            began = time.thread_time()
            self._read(data)
            took_s = min(took_s, time.thread_time() - began)
        self._outcome.longest_s = max(self._outcome.longest_s, took_s)
        if took_s > LONGEST_S:
            self._find(f"{took_s * 1000:.0f} ms", data)

    def _read(self, data: bytes) -> None:
        try:
            self._target.read(data)
        except self._target.declared:
            pass
        except Exception as error:
            self._find(repr(error), data)

    def _find(self, what: str, data: bytes) -> None:
        if what not in self._told:  # the first input of a kind is enough
            self._told.add(what)
            self._outcome.findings.append(f"{self._target.name}: {what} of {data.hex()}")

    def _mutated(self) -> bytes:
        random = self._random
        data = bytearray(random.choice(self.corpus))
        for _ in range(random.choice((1, 1, 2, 4, 8))):
            at = random.randrange(len(data) + 1)
            kind = random.randrange(7)
            if kind == 0 and at < len(data):
                data[at] ^= 1 << random.randrange(8)
            elif kind == 1 and at < len(data):
                data[at] = random.randrange(256)
            elif kind == 2:
                data[at:at] = random.randbytes(random.choice((1, 2, 4, 16)))
            elif kind == 3:
                del data[at : at + random.choice((1, 2, 4, 32))]
            elif kind == 4:
                width = random.choice((1, 2, 4, 8))
                number = random.choice(_NUMBERS) & ((1 << 8 * width) - 1)
                data[at : at + width] = number.to_bytes(width, "big")
            elif kind == 5:
                other = random.choice(self.corpus)
                start = random.randrange(len(other) + 1)
                data[at : at + random.randrange(64)] = other[start : start + random.randrange(64)]
            else:
                data[at:] = data[at:][: random.randrange(len(data) - at + 1)]
        return bytes(data[:_LARGEST])


def kept(name: str) -> list[bytes]:
    """The inputs of a target in the corpus."""
    path = CORPUS / f"{name}.txt"
    return [base64.b64decode(line) for line in path.read_text().split()] if path.exists() else []


def keep(name: str, grown: list[bytes]) -> None:
    """Add inputs to the corpus, the shortest ones first."""
    CORPUS.mkdir(exist_ok=True)
    lines = [base64.b64encode(each).decode() for each in {*kept(name), *grown}]
    lines.sort(key=lambda line: (len(line), line))
    (CORPUS / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines[:300]))


def grown_mb() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fuzz(
    names: list[str], mutations: int, seed: int, *, keeps: bool = False, turn: int = 10_000
) -> Outcome:
    """Mutate the inputs of all these targets in turns, so many in all."""
    outcome = Outcome()
    targets = [Fuzz(TARGETS[name], seed, outcome) for name in names]
    before_mb, left = grown_mb(), mutations
    while left > 0:
        for each in targets:
            each.run(min(turn, -(-left // len(targets))))
        left = mutations - outcome.mutations
    if grown_mb() - before_mb > MOST_GROWTH_MB:
        outcome.findings.append(f"{grown_mb() - before_mb:.0f} MB more than before")
    if keeps:
        for name, each in zip(names, targets, strict=True):
            keep(name, each.grown)
    return outcome


def main() -> int:
    """Fuzz, and print what was found; the exit code is 1 if there is anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=2_000_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=TARGETS, help="one of them alone")
    parser.add_argument("--keep", action="store_true", help="add what is new to the corpus")
    chosen = parser.parse_args()
    names = [chosen.target] if chosen.target else list(TARGETS)
    outcome = fuzz(names, chosen.mutations, chosen.seed, keeps=chosen.keep)
    print(*dict.fromkeys(outcome.findings), sep="\n")
    new = ", ".join(f"{name} {count}" for name, count in outcome.new.items())
    print(
        f"{outcome.mutations:,} mutations, {len(outcome.findings)} findings, at most "
        f"{outcome.longest_s * 1000:.1f} ms; inputs that reached new lines: {new}"
    )
    return bool(outcome.findings)


if __name__ == "__main__":
    sys.exit(main())
