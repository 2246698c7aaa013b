"""What each request needs, as KafkaApis of Apache Kafka 3.9 asks for it; versions that came with
4.x as there. Written by hand, and not after the registrations of the handlers, which it is held
against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kbroker.acl.acl import CLUSTER, AclResource, AclResourceType
from kbroker.acl.acl import AclOperation as Op
from kbroker.protocol.declaration import Versions
from kbroker.record.record_batch import TRANSACTIONAL_BIT
from tests.fakes.clusters.replication_cluster import batch
from tests.rights.ruled_broker import IdOf

Right = tuple[Op, AclResource]

NOT_REFUSED, TOPIC_29, GROUP_30, CLUSTER_31, TRANSACTION_53, TOKEN_65 = 0, 29, 30, 31, 53, 65
TOPIC = AclResource(AclResourceType.TOPIC, "orders")
DOOMED = AclResource(AclResourceType.TOPIC, "doomed")
NEW = AclResource(AclResourceType.TOPIC, "new")
GROUP = AclResource(AclResourceType.GROUP, "workers")
LEFT = AclResource(AclResourceType.GROUP, "left")
TRANSACTION = AclResource(AclResourceType.TRANSACTIONAL_ID, "move")
BUSY = AclResource(AclResourceType.TRANSACTIONAL_ID, "busy")
BOSS = AclResource(AclResourceType.USER, "User:boss")
ADMIN_USER = AclResource(AclResourceType.USER, "User:admin")
TOKEN = AclResource(AclResourceType.DELEGATION_TOKEN, "*")  # ids of tokens are drawn
RESOURCES = (TOPIC, DOOMED, NEW, GROUP, LEFT, TRANSACTION, BUSY, CLUSTER, BOSS, ADMIN_USER, TOKEN)
EVERY_VERSION = "0+"
_BROKER = "1"
_STRANGER = 99  # the id of a broker that is not there
_TOPIC_TYPE, _BROKER_TYPE = 2, 4


@dataclass(frozen=True, slots=True)
class Need:
    """One of these rights; `code` refuses who has none, or nothing is shown without a word."""

    code: int
    rights: tuple[Right, ...]
    versions: str = EVERY_VERSION


@dataclass(frozen=True, slots=True)
class Row:
    """A request, and all that it needs. `allowed` are the codes of who has it."""

    key: int
    values: Mapping[str, Any]
    needs: tuple[Need, ...] = ()
    versions: str = EVERY_VERSION
    variant: str = ""
    shows: Callable[[Any], object] | None = None  # what is hidden without a word
    allowed: frozenset[int] = frozenset({0})
    closes_unanswered: bool = False
    has_login: bool = False

    @property
    def served_versions(self) -> Versions:
        return Versions.parse(self.versions)

    def needed(self, version: int) -> list[Need]:
        return [each for each in self.needs if version in Versions.parse(each.versions)]


def need(code: int, *rights: Right, versions: str = EVERY_VERSION) -> Need:
    return Need(code, rights, versions)


def row(
    key: int, values: Mapping[str, Any], *needs: Need, allowed: tuple[int, ...] = (0,), **more: Any
) -> Row:
    return Row(key, values, needs, allowed=frozenset(allowed), **more)


_CLUSTER_ACTION = need(CLUSTER_31, (Op.CLUSTER_ACTION, CLUSTER))
_SEES_TOPIC = need(TOPIC_29, (Op.DESCRIBE, TOPIC))
_READS_TOPIC = need(TOPIC_29, (Op.READ, TOPIC))
_WRITES_TOPIC = need(TOPIC_29, (Op.WRITE, TOPIC))
_READS_GROUP = need(GROUP_30, (Op.READ, GROUP))
_SEES_GROUP = need(GROUP_30, (Op.DESCRIBE, GROUP))
_WRITES_TRANSACTION = need(TRANSACTION_53, (Op.WRITE, TRANSACTION))
_SEES_CLUSTER = need(CLUSTER_31, (Op.DESCRIBE, CLUSTER))
_ALTERS_CLUSTER = need(CLUSTER_31, (Op.ALTER, CLUSTER))
_LISTS_CLUSTER_SETTINGS = need(CLUSTER_31, (Op.DESCRIBE_CONFIGS, CLUSTER))

_ID = IdOf(TOPIC.name)
_AT = [{"partition_index": 0}]
_INDEX = [{"name": TOPIC.name, "topic_id": _ID, "partition_indexes": [0]}]
_COMMITTED = [{"name": TOPIC.name, "topic_id": _ID,
               "partitions": [{"partition_index": 0, "committed_offset": 1}]}]  # fmt: skip
_FETCHED = {
    "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1,
    "topics": [{"topic": TOPIC.name, "topic_id": _ID,
                "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}],
}  # fmt: skip
_ANY_RULE = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
    "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
_NO_RULE = _ANY_RULE | {"resource_type_filter": 2, "resource_name_filter": "nothing's"}
_RULE = {
    "resource_type": 2, "resource_name": "elsewhere", "resource_pattern_type": 3,
    "principal": "User:x", "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip
_LIMIT = {"entity": [{"entity_type": "user", "entity_name": "u"}],
          "ops": [{"key": "producer_byte_rate", "value": 1.0}]}  # fmt: skip
_SETTING = {"name": "retention.ms", "value": "1000"}
_OF_BROKER = {"name": "log.cleaner.threads", "value": "1"}


def _produced(flags: int = 0, **values: Any) -> dict[str, Any]:
    data = [{"index": 0, "records": batch(flags=flags)}]
    topics = [{"name": TOPIC.name, "topic_id": _ID, "partition_data": data}]
    return {"acks": 1, "timeout_ms": 1_000, "topic_data": topics} | values


def _settings(kind: int, name: str, **values: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name} | values]}


def _altered(kind: int, name: str, setting: Mapping[str, str]) -> dict[str, Any]:
    return _settings(kind, name, configs=[setting]) | {"validate_only": True}


def _topic_of(answer: Any) -> list[Any]:
    return [each for each in answer.topics if each.name == TOPIC.name]


RECORDS = (
    row(0, _produced(), _WRITES_TOPIC, allowed=(0, 87)),
    row(0, _produced(acks=0), need(NOT_REFUSED, (Op.WRITE, TOPIC)), variant="no answer",
        versions="3+", closes_unanswered=True),
    row(0, _produced(TRANSACTIONAL_BIT, transactional_id=TRANSACTION.name), _WRITES_TRANSACTION,
        _WRITES_TOPIC, variant="transaction", versions="3+"),
    row(1, {"replica_id": -1} | _FETCHED, _READS_TOPIC),
    row(1, {"replica_id": 1, "replica_state": {"replica_id": 1}} | _FETCHED,
        need(TOPIC_29, (Op.CLUSTER_ACTION, CLUSTER)), variant="follower", allowed=(6,)),
    row(2, {"replica_id": -1, "topics": [{"name": TOPIC.name, "partitions": _AT}]}, _SEES_TOPIC),
    row(3, {"topics": [{"name": TOPIC.name}], "allow_auto_topic_creation": False}, _SEES_TOPIC),
    row(3, {"topics": [{"name": None, "topic_id": _ID}]}, _SEES_TOPIC, variant="id",
        versions="12+"),
    row(3, {"topics": [{"name": NEW.name}]}, need(TOPIC_29, (Op.DESCRIBE, NEW)),
        need(TOPIC_29, (Op.CREATE, CLUSTER), (Op.CREATE, NEW)), variant="creation", allowed=(38,)),
    row(3, {"topics": []}, need(NOT_REFUSED, (Op.DESCRIBE, TOPIC)), variant="all",
        versions="0", shows=_topic_of),
    row(3, {"topics": None}, need(NOT_REFUSED, (Op.DESCRIBE, TOPIC)), variant="all",
        versions="1+", shows=_topic_of),
    row(3, {"topics": None, "include_cluster_authorized_operations": True},
        need(NOT_REFUSED, (Op.DESCRIBE, CLUSTER)), variant="cluster", versions="8-10",
        shows=lambda answer: answer.cluster_authorized_operations),
    row(21, {"topics": [{"name": TOPIC.name, "partitions": _AT}], "timeout_ms": 1_000},
        need(TOPIC_29, (Op.DELETE, TOPIC))),
    row(23, {"topics": [{"topic": TOPIC.name, "partitions": [{"partition": 0}]}]},
        need(TOPIC_29, (Op.DESCRIBE, TOPIC), (Op.CLUSTER_ACTION, CLUSTER))),
    row(61, {"topics": [{"name": TOPIC.name, "partition_indexes": [0]}]}, _READS_TOPIC),
    row(75, {"topics": [{"name": TOPIC.name}]}, _SEES_TOPIC),
    row(75, {"topics": []}, need(NOT_REFUSED, (Op.DESCRIBE, TOPIC)), variant="all",
        shows=_topic_of),
)  # fmt: skip
GROUPS = (
    row(8, {"group_id": GROUP.name, "topics": _COMMITTED}, _READS_GROUP, _READS_TOPIC),
    row(9, {"group_id": GROUP.name, "topics": [{"name": TOPIC.name, "partition_indexes": [0]}],
            "groups": [{"group_id": GROUP.name, "topics": _INDEX}]}, _SEES_GROUP, _SEES_TOPIC),
    row(9, {"group_id": GROUP.name, "topics": None,
            "groups": [{"group_id": GROUP.name, "topics": None}]},
        _SEES_GROUP, need(NOT_REFUSED, (Op.DESCRIBE, TOPIC)), variant="all", versions="2+",
        shows=lambda answer: answer.topics or [t for each in answer.groups for t in each.topics]),
    row(10, {"key": GROUP.name, "coordinator_keys": [GROUP.name]}, _SEES_GROUP),
    row(10, {"key": TRANSACTION.name, "key_type": 1, "coordinator_keys": [TRANSACTION.name]},
        need(TRANSACTION_53, (Op.DESCRIBE, TRANSACTION)), variant="transaction", versions="1+"),
    row(11, {"group_id": GROUP.name, "session_timeout_ms": 1}, _READS_GROUP, allowed=(26,)),
    row(12, {"group_id": GROUP.name, "member_id": "m"}, _READS_GROUP, allowed=(25,)),
    row(13, {"group_id": GROUP.name, "member_id": "m", "members": [{"member_id": "m"}]},
        _READS_GROUP, allowed=(0, 25)),
    row(14, {"group_id": GROUP.name, "member_id": "m"}, _READS_GROUP, allowed=(23, 25)),
    row(15, {"groups": [GROUP.name]}, _SEES_GROUP),
    row(16, {}, need(NOT_REFUSED, (Op.DESCRIBE, CLUSTER), (Op.DESCRIBE, GROUP)),
        shows=lambda answer: answer.groups),
    row(42, {"groups_names": [LEFT.name]}, need(GROUP_30, (Op.DELETE, LEFT)), allowed=(69,)),
    row(47, {"group_id": GROUP.name, "topics": [{"name": TOPIC.name, "partitions": _AT}]},
        need(GROUP_30, (Op.DELETE, GROUP)), _READS_TOPIC),
    # Answered so whoever asks: the protocols of these groups are off.
    row(68, {"group_id": GROUP.name}, allowed=(35,)),
    row(69, {"group_ids": [GROUP.name]}, allowed=(35,)),
    row(76, {"group_id": GROUP.name}, allowed=(35,)),
)  # fmt: skip
_ADDED = [{"name": TOPIC.name, "partitions": [0]}]
TRANSACTIONS = (
    row(22, {"transactional_id": None, "transaction_timeout_ms": 1_000},
        need(CLUSTER_31, (Op.IDEMPOTENT_WRITE, CLUSTER), (Op.WRITE, TOPIC), (Op.WRITE, DOOMED),
             (Op.WRITE, NEW))),
    row(22, {"transactional_id": TRANSACTION.name, "transaction_timeout_ms": 1_000},
        _WRITES_TRANSACTION, variant="transaction"),
    row(24, {"v3_and_below_transactional_id": TRANSACTION.name, "v3_and_below_producer_id": 1 << 40,
             "v3_and_below_topics": _ADDED},
        _WRITES_TRANSACTION, _WRITES_TOPIC, versions="0-3", allowed=(49,)),
    row(24, {"transactions": [{"transactional_id": TRANSACTION.name, "producer_id": 1 << 40,
                               "topics": _ADDED}]}, _CLUSTER_ACTION, versions="4+", allowed=(49,)),
    row(25, {"transactional_id": TRANSACTION.name, "producer_id": 1 << 40, "group_id": GROUP.name},
        _WRITES_TRANSACTION, _READS_GROUP, allowed=(49,)),
    row(26, {"transactional_id": TRANSACTION.name, "producer_id": 1 << 40}, _WRITES_TRANSACTION,
        allowed=(49,)),
    row(27, {"markers": [{"producer_id": 1 << 41, "topics": [
        {"name": TOPIC.name, "partition_indexes": [0]}]}]},
        need(CLUSTER_31, (Op.ALTER, CLUSTER), (Op.CLUSTER_ACTION, CLUSTER))),
    row(28, {"transactional_id": TRANSACTION.name, "group_id": GROUP.name, "producer_id": 1 << 42,
             "topics": _COMMITTED}, _WRITES_TRANSACTION, _READS_GROUP, _READS_TOPIC, allowed=(49,)),
    row(65, {"transactional_ids": [TRANSACTION.name]},
        need(TRANSACTION_53, (Op.DESCRIBE, TRANSACTION))),
    row(65, {"transactional_ids": [BUSY.name]}, need(TRANSACTION_53, (Op.DESCRIBE, BUSY)),
        need(NOT_REFUSED, (Op.DESCRIBE, TOPIC)), variant="topics",
        shows=lambda answer: answer.transaction_states[0].topics),
    row(66, {}, need(NOT_REFUSED, (Op.DESCRIBE, TRANSACTION)),
        shows=lambda answer: [each for each in answer.transaction_states
                              if each.transactional_id == TRANSACTION.name]),
)  # fmt: skip
_CREATED = [{"name": NEW.name, "num_partitions": 1, "replication_factor": 1}]
ADMINISTRATION = (
    row(19, {"topics": _CREATED, "validate_only": True},
        need(TOPIC_29, (Op.CREATE, CLUSTER), (Op.CREATE, NEW)),
        need(TOPIC_29, (Op.DESCRIBE_CONFIGS, NEW), versions="5+"), versions="1+"),
    row(19, {"topics": [_CREATED[0] | {"name": TOPIC.name}]},
        need(TOPIC_29, (Op.CREATE, CLUSTER), (Op.CREATE, TOPIC)), versions="0", allowed=(36,)),
    row(20, {"topic_names": [DOOMED.name], "topics": [{"name": DOOMED.name}], "timeout_ms": 5_000},
        need(TOPIC_29, (Op.DELETE, DOOMED))),
    row(20, {"topics": [{"name": None, "topic_id": IdOf(DOOMED.name)}], "timeout_ms": 5_000},
        need(TOPIC_29, (Op.DELETE, DOOMED)), variant="id", versions="6+"),
    row(32, _settings(_TOPIC_TYPE, TOPIC.name, configuration_keys=["retention.ms"]),
        need(TOPIC_29, (Op.DESCRIBE_CONFIGS, TOPIC))),
    row(32, _settings(_BROKER_TYPE, _BROKER, configuration_keys=["log.cleaner.threads"]),
        _LISTS_CLUSTER_SETTINGS, variant="broker"),
    row(33, _altered(_TOPIC_TYPE, TOPIC.name, _SETTING), need(TOPIC_29, (Op.ALTER_CONFIGS, TOPIC))),
    row(33, _altered(_BROKER_TYPE, _BROKER, _OF_BROKER),
        need(CLUSTER_31, (Op.ALTER_CONFIGS, CLUSTER)), variant="broker"),
    row(44, _altered(_TOPIC_TYPE, TOPIC.name, _SETTING), need(TOPIC_29, (Op.ALTER_CONFIGS, TOPIC))),
    row(44, _altered(_BROKER_TYPE, _BROKER, _OF_BROKER),
        need(CLUSTER_31, (Op.ALTER_CONFIGS, CLUSTER)), variant="broker"),
    row(34, {"dirs": [{"path": "/nowhere", "topics": [{"name": TOPIC.name, "partitions": [0]}]}]},
        _ALTERS_CLUSTER, allowed=(57,)),
    row(35, {"topics": None}, need(NOT_REFUSED, (Op.DESCRIBE, CLUSTER)), versions="0-2",
        shows=lambda answer: answer.results),
    row(35, {"topics": None}, _SEES_CLUSTER, versions="3+"),
    row(37, {"topics": [{"name": TOPIC.name, "count": 2, "assignments": None}],
             "timeout_ms": 1_000, "validate_only": True}, need(TOPIC_29, (Op.ALTER, TOPIC))),
    # Whoever has not logged in gets no delegation token (64), whatever rules say; what others need
    # is in tests/unit/apis/test_delegation_tokens.py.
    row(38, {"max_lifetime_ms": -1}, allowed=(64,)),
    row(39, {"hmac": b"x", "renew_period_ms": -1}, allowed=(64,)),
    row(40, {"hmac": b"x", "expiry_time_period_ms": -1}, allowed=(64,)),
    row(41, {"owners": None}, allowed=(64,)),
    row(43, {"topic_partitions": [{"topic": TOPIC.name, "partitions": [0]}]}, _ALTERS_CLUSTER,
        allowed=(0, 84)),
    row(45, {"topics": [{"name": TOPIC.name, "partitions": [{"partition_index": 0}]}]},
        _ALTERS_CLUSTER, allowed=(0, 85)),
    row(46, {"topics": None}, _SEES_CLUSTER),
    row(57, {"feature_updates": [], "timeout_ms": 1_000}, _ALTERS_CLUSTER, allowed=(0, 42)),
    row(60, {"include_cluster_authorized_operations": True},
        need(NOT_REFUSED, (Op.DESCRIBE, CLUSTER)),
        shows=lambda answer: answer.cluster_authorized_operations),
    row(74, {}, _LISTS_CLUSTER_SETTINGS),
)  # fmt: skip
SECURITY = (
    row(17, {"mechanism": "PLAIN"}, allowed=(33, 34)),
    row(18, {"client_software_name": "n", "client_software_version": "1"}),
    row(36, {"auth_bytes": b""}, allowed=(34,)),
    row(29, _ANY_RULE, _SEES_CLUSTER),
    row(30, {"creations": [_RULE]}, _ALTERS_CLUSTER),
    row(31, {"filters": [_NO_RULE]}, _ALTERS_CLUSTER),
    row(38, {"max_lifetime_ms": -1}, versions="0-2", has_login=True),
    row(
        38,
        {"max_lifetime_ms": -1, "owner_principal_type": "User", "owner_principal_name": "boss"},
        need(TOKEN_65, (Op.CREATE_TOKENS, BOSS)),
        versions="3+",
        has_login=True,
    ),
    row(38, {"max_lifetime_ms": -1}, variant="nobody", allowed=(64,)),
    row(39, {"hmac": b"x"}, has_login=True, allowed=(62,)),
    row(40, {"hmac": b"x"}, has_login=True, allowed=(62,)),
    row(
        41,
        {"owners": None},
        need(NOT_REFUSED, (Op.DESCRIBE, TOKEN), (Op.DESCRIBE_TOKENS, ADMIN_USER)),
        has_login=True,
        shows=lambda answer: [each for each in answer.tokens if each.principal_name == "admin"],
    ),
    row(
        49,
        {"entries": [_LIMIT], "validate_only": True},
        need(CLUSTER_31, (Op.ALTER_CONFIGS, CLUSTER)),
    ),
    row(48, {"components": [], "strict": False}, _LISTS_CLUSTER_SETTINGS),
    row(50, {"users": None}, _SEES_CLUSTER),
    row(51, {"deletions": [{"name": "nobody", "mechanism": 1}]}, _ALTERS_CLUSTER, allowed=(91,)),
)
_OLD_CONTROLLER = {"controller_id": 1, "controller_epoch": 0}
BROKERS = (
    row(4, _OLD_CONTROLLER, _CLUSTER_ACTION, allowed=(11,)),
    row(5, _OLD_CONTROLLER, _CLUSTER_ACTION, allowed=(11,)),
    row(6, _OLD_CONTROLLER, _CLUSTER_ACTION, allowed=(11,)),
    row(7, {"broker_id": _STRANGER}, _CLUSTER_ACTION, allowed=(8,)),
    row(56, {"broker_id": _STRANGER}, _CLUSTER_ACTION, allowed=(77, 102)),
    row(58, {"request_data": b""}, _CLUSTER_ACTION, allowed=(42,)),
    row(67, {"broker_id": _STRANGER}, _CLUSTER_ACTION, allowed=(102,)),
)
ROWS = (*RECORDS, *GROUPS, *TRANSACTIONS, *ADMINISTRATION, *SECURITY, *BROKERS)
