"""The differences from Apache Kafka 3.9.2 that are allowed, each with its reason.

A rule takes the transactions of one event and gives them back without the difference; both sides go
through all rules before they are compared. Whatever no rule speaks of must be equal: who wrote,
what was written together, every path, every byte, every version, every expected version.

Transactions that were refused, and sessions opened, are in neither list: they change nothing. Kafka
makes a node to learn whether it is there, and tries a `set` before a `create`; kbroker reads first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby

from tests.fakes.recording_tree import Transaction, Write

# Events of parts that are not there yet. They are written by hand as they stand in the fixture, and
# whatever comes later must leave them alone.
NOT_THERE_YET = {
    10: "client quotas",
    11: "client quotas",
    12: "SCRAM users",
    13: "SCRAM users",
    14: "ACLs",
    15: "ACLs",
}
Rule = Callable[[list[Transaction]], list[Transaction]]
_TIMESTAMP = re.compile(r'"timestamp":"\d+"')
_STATE = re.compile(r"/brokers/topics/[^/]+/partitions/\d+/state")
_LAST_OF_A_TOPIC = re.compile(r"(/brokers/topics|/config/topics|/admin/delete_topics)/[^/]+")


def timestamps(transactions: list[Transaction]) -> list[Transaction]:
    """Time is not the same."""
    return _each_write(transactions, lambda write: _with_data(write, masked))


def order_of_overrides(transactions: list[Transaction]) -> list[Transaction]:
    """Kafka writes overrides in the order of a Java hash table, kbroker in that of their setting;
    it means nothing.
    """
    return _each_write(
        transactions,
        lambda write: _with_data(write, sorted_overrides) if _is_config(write) else write,
    )


def nodes_of_the_authorizer(transactions: list[Transaction]) -> list[Transaction]:
    """Not there yet (ACLs); by a session of its own, which leaves nothing behind when it ends."""
    return [t for t in transactions if t.writes and not t.writes[0].path.startswith("/kafka-acl")]


def fence_of_a_migration(transactions: list[Transaction]) -> list[Transaction]:
    """Kafka checks with every change of settings that no KRaft controller has taken /controller
    over; kbroker does not migrate.
    """
    return [
        replace(t, writes=t.writes[1:])
        if t.writes[0] == Write(op="check", path="/controller", version=0)
        else t
        for t in transactions
    ]


def seat_left_before_the_session(transactions: list[Transaction]) -> list[Transaction]:
    """A kbroker that stops gives the controller's seat up at once, Kafka's goes with its session;
    so the next controller begins while the logs of this one close.
    """
    kept = [t for t in transactions if t.writes[-1] != Write(op="delete", path="/controller")]
    left = Write(op="session-close", path="/controller")
    return [replace(t, writes=tuple(w for w in t.writes if w != left)) for t in kept]


def end_of_a_topic(transactions: list[Transaction]) -> list[Transaction]:
    """kbroker removes a topic's overrides first, then the topic and the wish to delete it in one
    transaction: a name that is free has nothing left behind it. Kafka removes the three one by one,
    the topic first.
    """
    singles = [single for t in transactions for single in _split_deletes(t)]
    return _sorted_runs(singles, _LAST_OF_A_TOPIC)


def order_of_partitions(transactions: list[Transaction]) -> list[Transaction]:
    """Within one step Kafka writes the states of partitions in the order of a hash table. Writes of
    one partition keep their order.
    """
    return _sorted_runs(transactions, _STATE)


def topics_made_at_once(transactions: list[Transaction]) -> list[Transaction]:
    """With two topics in one request, the broker writes the second while the controller works the
    first; how they interleave is left to chance. Each topic's writes keep their order.
    """
    made = [w.path for t in transactions for w in t.writes if _is_new_topic(w)]
    if len(made) < 2:
        return transactions
    return sorted(transactions, key=lambda t: t.writes[-1].path.split("/")[3])


RULES: tuple[Rule, ...] = (
    timestamps,
    order_of_overrides,
    nodes_of_the_authorizer,
    fence_of_a_migration,
    seat_left_before_the_session,
    end_of_a_topic,
    order_of_partitions,
    topics_made_at_once,
)


def without_differences(
    transactions: Iterable[Transaction], rules: Iterable[Rule] = RULES
) -> list[Transaction]:
    """The transactions after all rules."""
    remaining = [t for t in transactions if t.writes]
    for rule in rules:
        remaining = rule(remaining)
    return remaining


def masked(data: str) -> str:
    """Data without timestamps."""
    return _TIMESTAMP.sub('"timestamp":"-"', data)


def sorted_overrides(data: str) -> str:
    """Data of a settings node with the overrides in the order of their names."""
    document = json.loads(data)
    document["config"] = dict(sorted(document["config"].items()))
    return json.dumps(document, separators=(",", ":"))


def _each_write(
    transactions: list[Transaction], change: Callable[[Write], Write]
) -> list[Transaction]:
    return [replace(t, writes=tuple(map(change, t.writes))) for t in transactions]


def _with_data(write: Write, change: Callable[[str], str]) -> Write:
    return replace(write, data=change(write.data)) if write.data else write


def _is_config(write: Write) -> bool:
    return write.path.startswith("/config/") and not write.path.startswith("/config/changes")


def _is_new_topic(write: Write) -> bool:
    return write.op == "create" and write.path.rpartition("/")[0] == "/brokers/topics"


def _split_deletes(transaction: Transaction) -> list[Transaction]:
    checks = tuple(w for w in transaction.writes if w.op == "check")
    deletes = [w for w in transaction.writes if w.op == "delete"]
    if len(deletes) < 2:
        return [transaction]
    return [replace(transaction, writes=(*checks, delete)) for delete in deletes]


def _sorted_runs(transactions: list[Transaction], pattern: re.Pattern[str]) -> list[Transaction]:
    """Sort neighbours whose last path fits, as long as no path comes twice."""
    ordered: list[Transaction] = []
    for fits, run in groupby(transactions, lambda t: bool(pattern.fullmatch(t.writes[-1].path))):
        group: list[Transaction] = []
        for transaction in run:
            path = transaction.writes[-1].path
            if any(t.writes[-1].path == path for t in group):
                ordered += _by_path(group)
                group = []
            group.append(transaction)
        ordered += _by_path(group) if fits else group
    return ordered


def _by_path(group: list[Transaction]) -> list[Transaction]:
    return sorted(group, key=lambda t: t.writes[-1].path)
