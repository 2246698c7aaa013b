"""Holds what brokers said of the same batches, and what Java read of them, against each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from compat_tests.batches.generating import Generated
from compat_tests.batches.reading import UNREADABLE, Found
from compat_tests.batches.sending import Answer, Request

OWN = "kbroker"
_NOT_LEADER = 6
_NEW_FORMAT = 3  # the first version of Produce that takes one batch of format 2
_MOST_RECORDS = 200
SEQUENCES = "sequences"


class Difference(NamedTuple):
    """What kbroker does otherwise than every Apache Kafka that was asked."""

    topic: str
    odd: str
    own: str
    theirs: tuple[str, ...]
    data: bytes

    def __str__(self) -> str:
        return f"{self.topic}: {self.odd}: {self.own}; Apache: {' / '.join(self.theirs)}"


class Allowed(NamedTuple):
    """Patterns of the topic with what is odd, of kbroker's answer, and of Apache's; and why."""

    odd: str
    own: str
    theirs: str
    why: str


class Sent(NamedTuple):
    """One batch, the partition it went to, and each broker's answer."""

    partition: int
    batch: Generated
    answers: dict[str, Answer]

    @property
    def is_judged(self) -> bool:
        """Whether Apache Kafka led the partition; on a busy machine it may lose it for a moment."""
        return all(
            answer.code != _NOT_LEADER for name, answer in self.answers.items() if name != OWN
        )


def sent(requests: Sequence[Request], answers: Mapping[str, list[list[Answer]]]) -> Iterator[Sent]:
    """Batch by batch."""
    for number, request in enumerate(requests):
        for index, batch in enumerate(request.batches):
            told = {name: each[number][index] for name, each in answers.items()}
            yield Sent(request.partitions[index], batch, told)


def differences(
    topic: str, batches: Sequence[Sent], found: Mapping[str, Found]
) -> list[Difference]:
    """Compare answers and stored records; all of these batches went to one topic."""
    spans = {name: _spans(name, batches, found[name]) for name in found}
    different = []
    for number, one in enumerate(batches):
        if not one.is_judged:
            continue
        told = {
            name: _outcome(one, answer, spans[name].get(number))
            for name, answer in one.answers.items()
        }
        own = told.pop(OWN)
        if own not in told.values() or _is_lost(own):
            theirs = tuple(told.values())
            different.append(Difference(topic, one.batch.label, own, theirs, one.batch.data))
    return different


def unexplained(different: Sequence[Difference], allowed: Sequence[Allowed]) -> list[Difference]:
    """Those that the list does not allow."""
    return [each for each in different if not any(_allows(entry, each) for entry in allowed)]


def _allows(entry: Allowed, different: Difference) -> bool:
    return (
        re.search(entry.odd, f"{different.topic}: {different.odd}") is not None
        and re.search(entry.own, different.own) is not None
        and all(re.search(entry.theirs, each) for each in different.theirs)
    )


def _outcome(one: Sent, answer: Answer, records: tuple[int | None, ...] | None) -> str:
    if answer.code:
        return answer.text
    if SEQUENCES in one.batch.odd:
        return f"{answer.text}, at {answer.base_offset}"
    if answer.base_offset < 0:
        return f"{answer.text}, nothing"  # of an old set that is cut off in its first message
    assert records is not None
    told = [_told(record) for record in records]
    if one.batch.version >= _NEW_FORMAT and len(told) != one.batch.count:
        told.append(f"{len(told)} of {one.batch.count} offsets")
    return f"{answer.text}, stored {' '.join(told)}"


def _told(record: int | None) -> str:
    if record is None:
        return "missing"
    return "unreadable" if record == UNREADABLE else f"{record:08x}"


def _is_lost(outcome: str) -> bool:
    """Acknowledged, and Java does not read it."""
    return "missing" in outcome or "unreadable" in outcome or "offsets" in outcome


def _spans(name: str, batches: Sequence[Sent], found: Found) -> dict[int, tuple[int | None, ...]]:
    """By the number of a batch that was taken: what is stored at its offsets."""
    taken: dict[int, list[tuple[int, int]]] = defaultdict(list)
    ends: dict[int, int] = defaultdict(int)
    for partition, offset in found:
        ends[partition] = max(ends[partition], offset + 1)
    for number, one in enumerate(batches):
        answer = one.answers.get(name)
        is_stored = answer is not None and answer.base_offset >= 0
        if answer is not None and is_stored and SEQUENCES not in one.batch.odd:
            taken[one.partition].append((answer.base_offset, number))
    spans = {}
    for partition, starts in taken.items():
        starts.sort()
        following = [start for start, _ in starts[1:]] + [ends[partition]]
        for (start, number), end in zip(starts, following, strict=True):
            end = min(end, start + _MOST_RECORDS)  # Apache Kafka may store any offset inside
            spans[number] = tuple(found.get((partition, at)) for at in range(start, end))
    return spans
