"""Targets of generated groups, asked of kbroker's assignors and of Apache Kafka's own in a JVM.

    python -m tests.integration.assignments --groups 2000 --seed 1

Equal balance, and never more partitions moved, is what must hold; the results are the same.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.running.apache_kafka import NEWEST
from kbroker.coordinator.consumer_group.assignors.assignor import Assignment
from kbroker.coordinator.consumer_group.assignors.range import RangeAssignor
from kbroker.coordinator.consumer_group.assignors.uniform import UniformAssignor
from kbroker.wording import uuid_text
from tests.fakes.generated_groups import Step, history, play

ASSIGNORS = {"uniform": UniformAssignor(), "range": RangeAssignor()}
RECORDED = Path(__file__).parents[1] / "golden/groups/assignments-4.3.1.json.gz"
RECORDED_SEEDS = range(1, 49)

Targets = dict[str, str]  # by member id, as `shown`


class Counted(NamedTuple):
    """The figures that count where results are not the same."""

    sizes: list[int]
    moved: int  # partitions that a member of the group had, and which go to another


def shown(assignment: Assignment) -> str:
    """Write an assignment as the program in Java reads and writes it."""
    return ";".join(
        f"{uuid_text(topic_id)}:{','.join(map(str, sorted(assignment[topic_id])))}"
        for topic_id in sorted(assignment)
        if assignment[topic_id]
    )


def ours(steps: list[Step]) -> list[Targets]:
    """The targets of one group, after each step, in the order in which they are written."""
    return [
        {member_id: shown(asked.targets[member_id]) for member_id in asked.spec.members}
        for asked in play(steps, ASSIGNORS)
    ]


def theirs(histories: Iterable[list[Step]]) -> list[list[Targets]]:
    """The same, of many groups, as Apache Kafka's classes have them."""
    played = list(histories)
    command = java_command(kept_classes("Assignors", NEWEST), NEWEST, "Assignors")
    lines = [line for steps in played for step in steps for line in _lines(step)]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    answers = iter(done.stdout.splitlines())
    return [[_read(next(answers)) for _ in steps] for steps in played]


def _lines(step: Step) -> Iterator[str]:
    for topic_id, count in step.topics.items():
        yield f"T\t{uuid_text(topic_id)}\t{count}"
    for member_id, wish in step.members.items():
        had = f"={wish.had}" if isinstance(wish.had, str) else shown(wish.had)
        topic_ids = ",".join(map(uuid_text, sorted(wish.topic_ids)))
        yield "\t".join(("M", member_id, wish.instance_id, wish.rack_id, topic_ids, had))
    yield f"go\t{step.assignor}\t{step.subscription_type.name}\t{step.joining or ''}"


def _read(line: str) -> Targets:
    return dict(text.split("=", 1) for text in line.split("\t"))


def counted(step: Step, before: Mapping[str, str], after: Targets) -> Counted:
    """The balance of targets, and what has moved."""
    held = {one: _places(text) for one, text in after.items()}
    moved = 0
    for one, wish in step.members.items():
        had = before.get(wish.had, "") if isinstance(wish.had, str) else shown(wish.had)
        kept = {place for place in _places(had) if _may_keep(place, wish.topic_ids)}
        moved += len(kept - held[one])
    return Counted(sorted(map(len, held.values())), moved)


def _places(text: str) -> set[tuple[str, str]]:
    parts = (part.split(":") for part in text.split(";") if part)
    return {(topic_id, number) for topic_id, numbers in parts for number in numbers.split(",")}


def _may_keep(place: tuple[str, str], topic_ids: frozenset[UUID]) -> bool:
    return place[0] in set(map(uuid_text, topic_ids))


def worse(steps: list[Step], our: list[Targets], their: list[Targets]) -> list[str]:
    """A line for each step that is not as balanced, or moves more."""
    found = []
    before: tuple[Targets, Targets] = ({}, {})
    for number, (step, mine, other) in enumerate(zip(steps, our, their, strict=True)):
        we, they = counted(step, before[0], mine), counted(step, before[1], other)
        if we.sizes != they.sizes or we.moved > they.moved:
            found.append(f"step {number}, {step.assignor}: {we} not {they}")
        before = mine, other
    return found


def recorded() -> list[list[Targets]]:
    """Return the targets that Apache Kafka gave the groups with `RECORDED_SEEDS`."""
    found: list[list[Targets]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found


def main() -> int:
    """Print what is worse, or other; the exit code is 1 if anything is worse."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="keep the answers of a few groups")
    arguments = parser.parse_args()
    if arguments.record:
        answers = json.dumps(theirs(map(history, RECORDED_SEEDS)))
        RECORDED.write_bytes(gzip.compress(answers.encode(), mtime=0))
        return 0
    seeds = range(arguments.seed * 1_000_000, arguments.seed * 1_000_000 + arguments.groups)
    same = steps = moves = failed = 0
    for seed, their in zip(seeds, theirs(map(history, seeds)), strict=True):
        played = history(seed)
        our = ours(played)
        steps += len(played)
        same += sum(
            list(mine.items()) == list(other.items())
            for mine, other in zip(our, their, strict=True)
        )
        before: Targets = {}
        for step, mine in zip(played, our, strict=True):
            moves += counted(step, before, mine).moved
            before = mine
        for line in worse(played, our, their):
            failed += 1
            print(f"group {seed}, {line}")
    print(
        f"{arguments.groups} groups, {steps} targets, {moves} partitions moved: {same} targets are"
    )
    print(f"the same, {failed} are less balanced or move more")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
