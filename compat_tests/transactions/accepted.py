"""Where kbroker answers otherwise than the Apache Kafka it follows, and why; everything else is a
difference to be mended.

Law: with `transaction.version` below 2 kbroker follows 3.9.2, and 4.3.1 where 3.9.2 does not serve a
request; at 2 it follows 4.3.1. An entry that explains nothing any more is a fault, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from compat_tests.transactions.script import NOT_SERVED, Answers


class Accepted(NamedTuple):
    """Steps of sequences that may be answered otherwise, with what is answered instead."""

    title: str
    step: str
    own: str
    why: str
    levels: tuple[int, ...] = (0, 2)  # of `transaction.version`, at which it differs


ACCEPTED = (
    Accepted(
        r"adding: a partition twice",
        r"add p t:0 t:0",
        r"\[t \[0 OK\]\]",
        "each partition is answered once, however often it is named",
    ),
    Accepted(
        r"adding: a batch .*",
        r"(add/[45]|describe) .*",
        r"not served|.*state=Empty.*",
        "batches of transactions are for brokers; a client finds no version above 3",
    ),
    Accepted(
        r"(adding|initialising): .*",
        r"describe p",
        r".* state=Empty .* began=-1 .*",
        "none has begun since the start of the producer; Apache: the time of the one before, which "
        "it forgets where it loads its log again",
        (0,),
    ),
    Accepted(
        r"describing: ListTransactions .*",
        r"list/2.*",
        NOT_SERVED,
        "as 3.9.2, which has no patterns",
    ),
    Accepted(
        r"markers: .*",
        r"marker p .*commit",
        r".*CLUSTER_AUTHORIZATION_FAILED.*",
        "only a coordinator knows that all partitions are ready for a commit",
    ),
    Accepted(
        r"markers: .*",
        r"(fetch|produce) .*",
        r".*",
        "what follows from commits that were refused",
    ),
    Accepted(
        r"markers: a marker without partitions",
        r"marker p commit",
        r"\[producer_id=p \[\]\]",
        "each marker is answered; Apache leaves one without partitions out",
    ),
    Accepted(
        r"offsets: TxnOffsetCommit with an old epoch after a newer one wrote",
        r"offset-fetch g t:0",
        r".*committed_offset=6 OK.*",
        "as 4.3.1; 3.9.2 forgets what is pending where a later commit of it is refused",
        (0,),
    ),
    Accepted(
        r"offsets: OffsetDelete while offsets are pending",
        r"offset-delete g t:0",
        r"GROUP_ID_NOT_FOUND \[\]",
        "a group is there once offsets of it are committed",
    ),
    Accepted(
        r"producing: an (old epoch|epoch that was never given)",
        r"produce.* epoch=own.*",
        r".*INVALID_PRODUCER_EPOCH base_offset=-1 log_append_time=None log_start=-1.*",
        "as 4.3.1: another epoch than that of the open transaction is verified; 3.9.2 would take "
        "sequence 0 of the next epoch",
        (0,),
    ),
    Accepted(
        r"second_protocol: (a batch of transactions adds and asks|markers of the second protocol)",
        r"(add/5|marker/2|end/5|fetch) .*",
        r".*",
        "requests between brokers, in versions that no client has a use for, and what follows",
        (2,),
    ),
    Accepted(
        r"second_protocol: an end in the first protocol is not that of the producer before",
        r"end/5 p (commit|abort) epoch=own-1",
        r"PRODUCER_FENCED producer_id=-1 epoch=-1",
        "it is fenced; Apache takes the end of its successor for its own, and gives it that epoch",
        (2,),
    ),
    Accepted(
        r"offsets: TxnOffsetCommit with unknown members and generations",
        r"commit p g t:0=5 member=x generation=5",
        r"\[t \[0 UNKNOWN_MEMBER_ID\]\]",
        "as 3.9.2, whose groups these are",
        (2,),
    ),
    Accepted(
        r"markers: a marker of a newer epoch fences",
        r"produce/11 p t:0",
        r".*INVALID_PRODUCER_EPOCH base_offset=-1 log_append_time=None log_start=0.*",
        "as 3.9.2: its log refuses the batch before its coordinator could",
        (2,),
    ),
)


class Difference(NamedTuple):
    """One step that was answered otherwise."""

    title: str
    step: str
    own: str
    expected: str

    def __str__(self) -> str:
        return f"{self.step}: {self.own}, Apache {self.expected}"


def differences(
    title: str, own: Answers, followed: Mapping[str, Answers], newer: Mapping[str, Answers]
) -> Iterator[Difference]:
    """Yield the steps that were answered otherwise. A sequence that no broker has a recording of differs in nothing."""
    for index, (step, answer) in enumerate(own):
        expected = _answer(followed, title, index, step)
        if expected in (None, NOT_SERVED):
            expected = _answer(newer, title, index, step)
        if expected not in (None, answer):
            yield Difference(title, step, answer, str(expected))


def _answer(side: Mapping[str, Answers], title: str, index: int, step: str) -> str | None:
    answers = side.get(title, ())
    if index >= len(answers):
        return None
    assert answers[index][0] == step, f"{title}: record again, {answers[index][0]!r} is {step!r}"
    return answers[index][1]


def reason(difference: Difference, level: int) -> Accepted | None:
    """The entry that explains a difference at a level of `transaction.version`."""
    return next(
        (
            entry
            for entry in ACCEPTED
            if level in entry.levels
            and re.fullmatch(entry.title, difference.title)
            and re.fullmatch(entry.step, difference.step)
            and re.fullmatch(entry.own, difference.own)
        ),
        None,
    )
