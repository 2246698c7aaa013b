"""The two brokers that are compared: those that run somewhere, and those that are started for it.

Law: whatever ends a run, its topics and groups are deleted, and what it started is stopped.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from compat_tests.answers.asking import Target
from compat_tests.answers.normal import Names
from compat_tests.answers.preparing import TOPICS, go_on, prepare
from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from compat_tests.running.shared_zookeeper import fresh_chroot
from compat_tests.transactions import sides
from compat_tests.transactions.runner import warm_up
from compat_tests.wire.wire_client import (
    DELETE_GROUPS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    LEAVE_GROUP,
    LIST_GROUPS,
    METADATA,
    WireClient,
)

KBROKER, APACHE = "kbroker", "kafka-"
OLD, NEW = APACHE + ZOOKEEPER_LINE, APACHE + NEWEST
STARTED = (KBROKER, OLD, NEW)
_PATIENT = {"zookeeper.session.timeout.ms": "30000", "broker.session.timeout.ms": "9000"}
# kbroker begins with the settings that the started brokers of Apache Kafka have.
_LIKE_APACHE = {
    "broker.id": "1",
    "kbroker.flush": "never",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.min.compaction.lag.ms": str(10**12),
}
_AUTO_CREATE = "auto.create.topics.enable"
_BROKER = 4  # a type of resource
_FORBIDS_CREATION = 4  # the first version of Metadata that may say so
_DELETED_WITHIN_S = 20.0


class UnusableError(Exception):
    """A broker that cannot be compared; the text says why, and what to do."""


@contextmanager
def running(name: str, root: Path) -> Iterator[str]:
    """The address of a broker: one that is started here by its name, or the one given."""
    with ExitStack() as stack:
        if name == KBROKER:
            settings = (sides.SETTINGS | _LIKE_APACHE).items()
            options = [part for item in settings for part in ("--override", "=".join(item))]
            broker: Any = BrokerProcess(root / "data", ("--profile", "prod", *options))
        elif name in STARTED:
            connect = fresh_chroot() if name == OLD else None
            broker = ApacheBroker(root / "data", connect, settings=sides.SETTINGS | _PATIENT)
        else:
            yield name
            return
        broker.start()
        stack.callback(_stop, broker)
        yield broker.bootstrap


def _stop(broker: Any) -> None:
    with suppress(subprocess.TimeoutExpired):  # then it was killed
        broker.stop()


@contextmanager
def started(*names: str) -> Iterator[list[str]]:
    """Their addresses; where all are started here, they get the highest `transaction.version` that
    all of them have.
    """
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-")))
        addresses = [
            stack.enter_context(running(name, root / str(number)))
            for number, name in enumerate(names)
        ]
        if all(name in STARTED for name in names):
            wanted = min(map(sides.highest_level, addresses))
            for address in addresses:
                if sides.level(address) != wanted:
                    sides.set_level(address, wanted)
        yield addresses


@contextmanager
def prepared(name: str, bootstrap: str, suffix: str = "") -> Iterator[Target]:
    """A broker with the topics that are asked about; their names end with `suffix`."""
    suffix = suffix or f"-{uuid.uuid4().hex[:7]}"
    target = Target(name, bootstrap, Names(suffix))
    _alone(bootstrap)
    try:
        warm_up(bootstrap)
        prepare(target)
        go_on(target)
        target.learn(TOPICS)
        if _creates_topics(target):
            low, high = target.ranges[METADATA]
            target.ranges[METADATA] = (max(low, _FORBIDS_CREATION), high)
        yield target
    finally:
        clean(bootstrap, suffix)


def _alone(bootstrap: str) -> None:
    """Raise UnusableError for a broker that is not the only one of its cluster, and OSError with
    its address for one that does not answer.
    """
    try:
        client = WireClient(bootstrap)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConnectionError(f"no broker answers at {bootstrap} ({reason})") from error
    count = len(client.call(METADATA, 8, topics=[]).brokers)
    client.close()
    if count != 1:
        raise UnusableError(
            f"{bootstrap} belongs to a cluster of {count} brokers, and raw requests go to one of "
            "them: name a broker that is alone in its cluster"
        )


def _creates_topics(target: Target) -> bool:
    """Whether it makes topics that a client only asks for."""
    client = WireClient(target.bootstrap)
    wanted = {
        "resource_type": _BROKER, "resource_name": str(target.node_id),
        "configuration_keys": [_AUTO_CREATE],
    }  # fmt: skip
    (answer,) = client.call(DESCRIBE_CONFIGS, 2, resources=[wanted]).results
    client.close()
    return [entry.value for entry in answer.configs] != ["false"]


def clean(bootstrap: str, suffix: str) -> None:
    """Delete the topics and groups whose names contain the suffix, and let members leave."""
    client = WireClient(bootstrap)
    listed = client.call(METADATA, 5, topics=None).topics
    topics = [entry.name for entry in listed if suffix in entry.name]
    client.call(DELETE_TOPICS, 5, topic_names=topics, timeout=30_000)
    groups = [g.group_id for g in client.call(LIST_GROUPS, 2).groups if suffix in g.group_id]
    for group in client.call(DESCRIBE_GROUPS, 4, groups=groups).groups:
        for member in group.members:
            named = {"group_id": group.group_id, "member_id": member.member_id}
            client.call(LEAVE_GROUP, 2, **named)
    client.call(DELETE_GROUPS, 1, groups_names=groups)
    deadline = time.monotonic() + _DELETED_WITHIN_S
    while any(suffix in t.name for t in client.call(METADATA, 5, topics=None).topics):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    client.close()


def ranges_of_both(a: Target, b: Target) -> dict[int, tuple[int, int]]:
    """{key: versions} that both serve."""
    found = {}
    for key in a.ranges.keys() & b.ranges.keys():
        low, high = (
            pick(a.ranges[key][at], b.ranges[key][at]) for at, pick in ((0, max), (1, min))
        )
        if low <= high:
            found[key] = (low, high)
    return dict(sorted(found.items()))
