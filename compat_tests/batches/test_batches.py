"""The short form of the hunt for batches that are taken, refused or stored otherwise than by Apache
Kafka, and what it would find.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from compat_tests.answers.hunt import Process, for_each, running
from compat_tests.batches.allowed import ALLOWED
from compat_tests.batches.generating import NEW_VERSION, Generated
from compat_tests.batches.hunt import Hunt
from compat_tests.batches.judging import Difference, Sent, differences, unexplained
from compat_tests.batches.outcomes import NODE_KINDS, Outcomes, differing, kinds
from compat_tests.batches.reading import JavaReader
from compat_tests.batches.sending import Answer
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE, jars

BATCHES = 2_000
REFUSED = 3  # of the hard ones
OWN, OLD, NEW = "kbroker", "3.9.2", "4.3.1"
# Retention and compaction, for those topics that have them.
_SOON = {
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "200",
}

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def brokers(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Process]]:
    """kbroker and both lines of Apache Kafka."""
    if target != "kbroker":
        pytest.skip("starts all three brokers itself")
    for version in (NEWEST, ZOOKEEPER_LINE):
        jars(version)
    with running(tmp_path_factory.mktemp("batches"), settings=_SOON) as started:
        yield started


def test_batches_are_taken_and_stored_as_kafka_takes_and_stores_them(
    brokers: dict[str, Process],
) -> None:
    hunt = Hunt({name: broker.bootstrap for name, broker in brokers.items()})

    found = hunt.round("short", BATCHES)
    hunt.close()

    assert hunt.count == BATCHES
    assert hunt.taken > BATCHES // 3
    assert [str(each) for each in found] == []


def test_hard_batches_come_to_the_same_with_every_broker(brokers: dict[str, Process]) -> None:
    batches, reader = kinds(), JavaReader()
    now_ms = int(time.time() * 1000)
    outcomes = {
        name: Outcomes(broker.bootstrap, reader, now_ms) for name, broker in brokers.items()
    }

    for_each(outcomes, lambda name: outcomes[name].write(batches))
    for each in outcomes.values():
        each.look()
    reader.close()

    found = {name: each.found for name, each in outcomes.items()}
    assert len(found[OWN]) == len(batches) + 6 * (len(NODE_KINDS) + len(batches) - REFUSED)
    assert differing(found) == []


def one(count: int = 2, **codes: int) -> Sent:
    """A batch of so many records at offset 5, with each broker's code."""
    batch = Generated(b"", ("odd",), count, NEW_VERSION, False)
    answers = {name: Answer(code, -1 if code else 5, False, ()) for name, code in codes.items()}
    return Sent(0, batch, answers)


def told(sent: Sent, **stored: list[int]) -> list[str]:
    """The differences where brokers hold these records from offset 5 on."""
    found = {
        name: {(0, 5 + n): checksum for n, checksum in enumerate(records)}
        for name, records in stored.items()
    }
    return [str(each) for each in differences("plain", [sent], found)]


def test_a_batch_that_is_stored_otherwise_is_found() -> None:
    taken = one(own=0, theirs=0)
    taken.answers[OWN] = taken.answers.pop("own")

    assert told(taken, **{OWN: [1, 2]}, theirs=[1, 2]) == []
    assert told(taken, **{OWN: [1, 3]}, theirs=[1, 2]) == [
        "plain: odd: 0, stored 00000001 00000003; Apache: 0, stored 00000001 00000002"
    ]


def test_a_batch_that_java_cannot_read_is_found_whatever_apache_stores() -> None:
    taken = one(**{OWN: 0, OLD: 0})

    assert told(taken, **{OWN: [1], OLD: [1]}) != []
    assert told(taken, **{OWN: [1, -1], OLD: [1, -1]}) != []


def test_a_batch_that_only_one_of_both_refuses_is_found() -> None:
    assert told(one(**{OWN: 0, OLD: 87, NEW: 87}), **{OWN: [1, 2], OLD: [], NEW: []}) != []
    assert told(one(**{OWN: 87, OLD: 0, NEW: 87}), **{OWN: [], OLD: [1, 2], NEW: []}) == []


def test_a_broker_of_apache_that_lost_the_partition_for_a_moment_judges_nothing() -> None:
    assert told(one(**{OWN: 0, OLD: 0, NEW: 6}), **{OWN: [1], OLD: [2], NEW: []}) == []
    assert told(one(**{OWN: 6, OLD: 0, NEW: 0}), **{OWN: [], OLD: [1], NEW: [1]}) != []


def test_only_what_is_on_the_list_is_allowed() -> None:
    broken = Difference("plain", "cut", "87", ("-1", "-1"), b"")
    taken = broken._replace(own="0, stored 00000001")

    assert all(entry.why for entry in ALLOWED)
    assert unexplained([broken, taken], ALLOWED) == [taken]
