"""The differences from Apache Kafka 3.9.2 that are allowed, each with its reason.

A rule takes the transactions of one event and gives them back without the difference; both sides go
through all rules before they are compared. Whatever no rule speaks of must be equal: who wrote,
what was written together, every path, every byte, every version, every expected version.

Transactions that were refused, and sessions opened, are in neither list: they change nothing. Kafka
makes a node to learn whether it is there, and tries a `set` before a `create`; kbroker reads first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from kbroker.zk.nodes.acl_znodes import PERSISTENT_PATHS
from kbroker.zk.tree import ANY_VERSION
from tests.fakes.trees.recording_tree import Transaction, Write

Rule = Callable[[list[Transaction]], list[Transaction]]
_TIMESTAMP = re.compile(r'"timestamp":"\d+"')
_FEATURES = re.compile(r'"features":\{("[a-z]+\.version":\{[^}]*\},?)+\}')
_STATE = re.compile(r"/brokers/topics/[^/]+/partitions/\d+/state")
_NEWS = ("/config/changes/", "/kafka-acl-changes/", "/kafka-acl-extended-changes/")
NO_RULES = '{"acls":[],"version":1}'
_ROOTS_OF_PASSING_NODES = ("/config/users", "/config/clients", "/config/ips")


def timestamps(transactions: list[Transaction]) -> list[Transaction]:
    """Time is not the same."""
    return _each_write(transactions, lambda write: _with_data(write, masked))


def features_of_brokers(transactions: list[Transaction]) -> list[Transaction]:
    """A kbroker supports transaction.version, which brokers of Kafka have from 4.0 on, without
    ZooKeeper. Kafka's controllers only read the names of features that the cluster uses.
    """
    return _each_write(transactions, lambda write: _with_data(write, without_features))


def nodes_of_the_authorizer(transactions: list[Transaction]) -> list[Transaction]:
    """Both make the nodes for rules with one after the other, each in an order of its own."""
    return _sorted_runs(transactions, "create", _is_parent_of_rules)


def empty_rules_stay(transactions: list[Transaction]) -> list[Transaction]:
    """A node whose last rule goes stays in kbroker for a quarter of an hour, as the versions of one
    that is made again begin at 0, and whoever had read the former one would not see the difference.
    Kafka deletes it. `emptied` names these nodes for the trees.
    """
    return _each_write(
        transactions,
        lambda write: Write(op="delete", path=write.path) if _is_emptied(write) else write,
    )


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


def topic_made_whole(transactions: list[Transaction]) -> list[Transaction]:
    """kbroker makes a topic and its overrides in one transaction, so that nobody finds half of it;
    Kafka writes the overrides, then the topic.
    """
    return [single for t in transactions for single in _split(t, "create", _is_topic_or_config)]


def settings_of_a_topic_that_is_there(transactions: list[Transaction]) -> list[Transaction]:
    """kbroker changes a topic's overrides only as long as it is there; Kafka looks before it
    writes, and can leave overrides of a topic that is deleted meanwhile.
    """
    return [
        replace(t, writes=tuple(w for w in t.writes if not _is_topic_check(w)))
        for t in transactions
    ]


def changes_with_their_news(transactions: list[Transaction]) -> list[Transaction]:
    """kbroker changes settings or rules and tells of it in one transaction, so that no change stays
    unheard of; Kafka does the one, then the other.
    """
    parted: list[Transaction] = []
    for t in transactions:
        news = tuple(w for w in t.writes if w.path.startswith(_NEWS))
        others = tuple(w for w in t.writes if w not in news)
        parted += [replace(t, writes=writes) for writes in (others, news) if writes]
    return parted


def deletions_that_changes_notice(transactions: list[Transaction]) -> list[Transaction]:
    """A node that is deleted and made again has the version of the former one, so that a change made
    to that one would win over the new one. So whoever deletes one in kbroker writes the root of its
    type, once and with the data it had, and whoever changes one expects the version that the root
    had. In Kafka the last one to write wins. `deletions` counts these writes for the trees.
    """
    return [
        replace(t, writes=tuple(w for w in t.writes if w not in _of_roots(t))) for t in transactions
    ]


def removal_of_a_topic(transactions: list[Transaction]) -> list[Transaction]:
    """kbroker removes the partitions' nodes level by level, Kafka partition by partition. kbroker
    then removes the overrides, and the topic with the wish to delete it in one transaction: a name
    that is free has nothing left behind it. Kafka removes the three one by one, the topic first.
    """
    singles = [single for t in transactions for single in _split(t, "delete", _is_part_of_topic)]
    return _sorted_runs(singles, "delete", _is_part_of_topic)


def order_of_partitions(transactions: list[Transaction]) -> list[Transaction]:
    """Within one step Kafka writes the states of partitions in the order of a hash table. Writes of
    one partition keep their order.
    """
    created = _sorted_runs(transactions, "create", _is_state)
    return _sorted_runs(created, "set", _is_state)


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
    features_of_brokers,
    nodes_of_the_authorizer,
    fence_of_a_migration,
    seat_left_before_the_session,
    topic_made_whole,
    settings_of_a_topic_that_is_there,
    deletions_that_changes_notice,
    changes_with_their_news,
    empty_rules_stay,
    removal_of_a_topic,
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


def deletions(transactions: Iterable[Transaction]) -> Counter[str]:
    """How often kbroker has raised the version of a root, by its path."""
    return Counter(w.path for t in transactions for w in _of_roots(t) if w.op == "set")


def emptied(transactions: Iterable[Transaction]) -> list[str]:
    """The paths of nodes whose last rule has gone."""
    return [w.path for t in transactions for w in t.writes if _is_emptied(w)]


def masked(data: str) -> str:
    """Data without timestamps."""
    return _TIMESTAMP.sub('"timestamp":"-"', data)


def without_features(data: str) -> str:
    """Data without the features that a broker supports."""
    return _FEATURES.sub('"features":{}', data)


def _each_write(
    transactions: list[Transaction], change: Callable[[Write], Write]
) -> list[Transaction]:
    return [replace(t, writes=tuple(map(change, t.writes))) for t in transactions]


def _with_data(write: Write, change: Callable[[str], str]) -> Write:
    return replace(write, data=change(write.data)) if write.data else write


def _is_new_topic(write: Write) -> bool:
    return write.op == "create" and write.path.rpartition("/")[0] == "/brokers/topics"


def _is_topic_check(write: Write) -> bool:
    return write.op == "check" and write.path.startswith("/brokers/topics/")


def _is_topic_or_config(path: str) -> bool:
    return path.rpartition("/")[0] in ("/brokers/topics", "/config/topics")


def _is_part_of_topic(path: str) -> bool:
    return path.startswith(("/brokers/topics/", "/config/topics/", "/admin/delete_topics/"))


def _is_parent_of_rules(path: str) -> bool:
    return any(each == path or each.startswith(f"{path}/") for each in PERSISTENT_PATHS)


def _is_emptied(write: Write) -> bool:
    return write.op == "set" and write.data == NO_RULES


def _is_state(path: str) -> bool:
    return bool(_STATE.fullmatch(path))


def _of_roots(transaction: Transaction) -> list[Write]:
    """Return its write of a root whose node it deletes, or its check of one whose node it changes."""
    found = []
    for root in _ROOTS_OF_PASSING_NODES:
        inner = {w.op for w in transaction.writes if w.path.startswith(f"{root}/")}
        at_root = [w for w in transaction.writes if w.path == root]
        if len(at_root) == 1 and (
            (at_root[0].op == "set" and "delete" in inner and at_root[0].data is None)
            or (at_root[0].op == "check" and "set" in inner and at_root[0].version != ANY_VERSION)
        ):
            found += at_root
    return found


def _split(
    transaction: Transaction, op: str, is_separate: Callable[[str], bool]
) -> list[Transaction]:
    """A transaction of such writes as one for each of them, with its checks."""
    checks = tuple(w for w in transaction.writes if w.op == "check")
    writes = [w for w in transaction.writes if w.op != "check"]
    if len(writes) > 1 and all(w.op == op and is_separate(w.path) for w in writes):
        return [replace(transaction, writes=(*checks, write)) for write in writes]
    return [transaction]


def _sorted_runs(
    transactions: list[Transaction], op: str, is_free: Callable[[str], bool]
) -> list[Transaction]:
    """Sort neighbours whose last write is free in its order, as long as no path comes twice."""
    ordered: list[Transaction] = []
    group: dict[str, Transaction] = {}
    for transaction in transactions:
        last = transaction.writes[-1]
        is_member = last.op == op and is_free(last.path)
        if not is_member or last.path in group:
            ordered += [group[path] for path in sorted(group)]
            group = {}
        if is_member:
            group[last.path] = transaction
        else:
            ordered.append(transaction)
    return ordered + [group[path] for path in sorted(group)]
