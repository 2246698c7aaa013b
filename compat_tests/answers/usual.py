"""A right request for every key, and each with one field changed, in every version.

Law: nothing that is asked here, with whatever field changed, alters or leaves anything but topics,
groups and transactional ids of the run's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kio.index import load_request_schema

from compat_tests.answers.asking import Caller
from compat_tests.answers.parts import EMPTY, FULL, INT32, INT64, TARGET, Values, shown
from compat_tests.answers.stage import Stage
from compat_tests.answers.variations import TEXTS, Variation, fitted, variations
from compat_tests.wire.record_bytes import batch

_TIMEOUT_MS = 10_000
_WAITED_FOR = {
    0,
    19,
    20,
    37,
    43,
    45,
    46,
    57,
}  # how long is too short for a change is a matter of luck

Make = Callable[[Stage], Values]


def in_every_version(caller: Caller, key: int) -> None:
    """Ask the usual requests of a key, and their variations."""
    low, high = caller.target.ranges[key]
    for version in range(low, high + 1):
        schema = _schema(key, version)
        if schema is not None:
            for usual in USUAL[key]:
                _vary(caller, usual, key, version, schema)


def _schema(key: int, version: int) -> Any:
    try:
        return load_request_schema(key, version)
    except Exception:  # whatever kio raises for it
        return None


@dataclass(frozen=True)
class Usual:
    """What is asked; `fresh`: it changes what it names, so that each question needs things anew."""

    make: Make
    fresh: bool = False
    of: str = ""  # in the label, where a key has several


def _vary(caller: Caller, usual: Usual, key: int, version: int, schema: Any) -> None:
    stage = Stage(caller, f"{key}-{version}{usual.of}")
    label = f"{schema.__module__.split('.')[2]}{usual.of and ' of ' + usual.of}"
    values = fitted(schema, usual.make(stage))
    caller.ask(label, key, version, **values)
    for number, (path, text, changed) in enumerate(list(variations(schema, values))):
        if _is_harmful(key, path[-1], text):
            continue
        if usual.fresh:
            again = fitted(schema, usual.make(stage))
            changed = list[Variation](variations(schema, again))[number][2]
        caller.ask(f"{label} with {shown(path)} {text}", key, version, **changed)
    stage.close()


def _is_harmful(key: int, field: str | int, text: str) -> bool:
    return (
        (field == "timeout" and key in _WAITED_FOR)
        or (field in ("replicas", "broker_ids") and text in ("[0]", "[1]", "[2]"))  # who is there
        or (key, field, text) in _HARMFUL
    )


_HARMFUL = {
    (0, "acks", "0"): "nobody answers",
    (0, "records", "null"): "Apache Kafka fails at it and never answers",
    (1, "replica_id", "0"): "it would be a follower",
    (1, "replica_id", "1"): "it would be a follower",
    (1, "replica_id", "2"): "it would be a follower",
    (1, "replica_id", str(INT32)): "it would be a follower",
    (1, "max_wait", str(INT32)): "an answer that never comes",
    (9, "groups", "nothing"): "3.9.2 fails at it and never answers",
    (11, "protocols", "one twice"): "Apache Kafka fails at it and never answers",
    (27, "topics", "one twice"): "4.3.1 fails at it and never answers",
    (27, "partition_indexes", "one twice"): "4.3.1 fails at it and never answers",
    (33, "resources", "one twice"): "Apache Kafka fails at it and never answers",
    (11, "group_id", "unknown"): "other versions would be asked about the same group",
    (11, "group_id", "with a space"): "other versions would be asked about the same group",
    (11, "group_id", "too long"): "other versions would be asked about the same group",
    (19, "name", "unknown"): "the topic would be there afterwards",
    (19, "num_partitions", str(INT32)): "3.9.2 would try to make them",
    (37, "count", str(INT32)): "3.9.2 would try to make them",
    (37, "count", str(-INT32 - 1)): "3.9.2 counts too far, and runs out of memory",
    (43, "topic_partitions", "null"): "all partitions of the cluster",
    (43, "topic_partitions", "nothing"): "all partitions of the cluster",
    (68, "member_epoch", "0"): "a member would join",
    (76, "member_epoch", "0"): "a member would join",
}


def _produce(stage: Stage) -> Values:
    data = [{"index": 0, "records": batch()}]
    topics = [{**_both(stage, TARGET), "partition_data": data}]
    return {"transactional_id": None, "acks": -1, "timeout": 1_000, "topic_data": topics}


def _both(stage: Stage, name: str) -> Values:
    """A topic by its name, or by its id where a version has no names."""
    return {"name": name, "topic": name, "topic_id": stage.names.ids[name]}


def _fetch(stage: Stage) -> Values:
    wanted = {
        "partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "log_start_offset": -1,
        "current_leader_epoch": -1, "last_fetched_epoch": -1,
    }  # fmt: skip
    return {
        "replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1,
        "topics": [{**_both(stage, FULL), "partitions": [wanted]}],
    }  # fmt: skip


def _list_offsets(stage: Stage) -> Values:
    wanted = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    return {"replica_id": -1, "topics": [{"name": FULL, "partitions": [wanted]}]}


def _metadata(stage: Stage) -> Values:
    return {"topics": [{"name": FULL}], "allow_auto_topic_creation": False}


def _membership(stage: Stage) -> Values:
    member = stage.member()
    return {
        "group_id": member.group, "generation_id": member.generation, "member_id": member.member_id,
        "generation_id_or_member_epoch": member.generation,
    }  # fmt: skip


def _committed(stage: Stage) -> list[Values]:
    part = {
        "partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1,
        "committed_metadata": "m",
    }  # fmt: skip
    return [{**_both(stage, FULL), "partitions": [part]}]


def _offset_commit(stage: Stage) -> Values:
    return {**_membership(stage), "topics": _committed(stage)}


def _offset_fetch(stage: Stage) -> Values:
    topics = [{**_both(stage, FULL), "partition_indexes": [0]}]
    group = stage.offsets()
    wanted = {"group_id": group, "member_epoch": -1, "topics": topics}
    return {"group_id": group, "topics": topics, "groups": [wanted]}


def _find_coordinator(stage: Stage) -> Values:
    return {"key": "g", "key_type": 0, "coordinator_keys": ["g"]}


def _join_group(stage: Stage) -> Values:
    return {
        "group_id": stage.fresh("group"), "session_timeout": 10_000, "rebalance_timeout": 1_000,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"\0\0"}],
    }  # fmt: skip


def _sync_group(stage: Stage) -> Values:
    named = {"protocol_type": "consumer", "protocol_name": "range"}
    membership = _membership(stage)
    assignments = [{"member_id": membership["member_id"], "assignment": b"\0\1"}]
    return {**membership, **named, "assignments": assignments}


def _leave_group(stage: Stage) -> Values:
    member = stage.member(is_shared=False)
    named = {"group_id": member.group, "member_id": member.member_id}
    return {**named, "members": [{"member_id": member.member_id}]}


def _list_groups(stage: Stage) -> Values:
    stage.member()
    return {"states_filter": ["Stable", "empty"], "types_filter": ["classic"]}


def _create_topics(stage: Stage) -> Values:
    topic = {
        "name": stage.fresh("topic"), "num_partitions": 1, "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "100000"}],
    }  # fmt: skip
    return {"topics": [topic], "timeout": _TIMEOUT_MS, "validate_only": False}


def _delete_topics(stage: Stage) -> Values:
    name = stage.made_topic()
    return {"topics": [{"name": name}], "topic_names": [name], "timeout": _TIMEOUT_MS}


def _create_partitions(stage: Stage) -> Values:
    topic = {"name": stage.made_topic(), "count": 2, "assignments": None}
    return {"topics": [topic], "timeout": _TIMEOUT_MS, "validate_only": False}


def _delete_records(stage: Stage) -> Values:
    wanted = [{"partition_index": 0, "offset": 0}]
    return {"topics": [{"name": EMPTY, "partitions": wanted}], "timeout": 1_000}


def _init_producer_id(stage: Stage, name: str | None) -> Values:
    timeout = {"transaction_timeout": 60_000}
    return {"transactional_id": name, "producer_id": -1, "producer_epoch": -1, **timeout}


def _epochs(stage: Stage) -> Values:
    wanted = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"topic": FULL, "partitions": [wanted]}]}


def _transaction(stage: Stage) -> Values:
    """The fields of all requests within a transaction."""
    name, producer_id, epoch = stage.producer()
    topics = [{"name": TARGET, "partitions": [0]}]
    return {
        "transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch,
        "v3_and_below_transactional_id": name, "v3_and_below_producer_id": producer_id,
        "v3_and_below_producer_epoch": epoch, "v3_and_below_topics": topics,
        "group_id": stage.fresh("group"), "committed": True, "generation_id": -1,
        "topics": _committed(stage),
    }  # fmt: skip


def _markers(stage: Stage) -> Values:
    topics = [{"name": stage.made_topic(is_shared=True), "partition_indexes": [0]}]
    marker = {"producer_id": 1 << 50, "producer_epoch": 0, "transaction_result": False}
    return {"markers": [{**marker, "coordinator_epoch": 0, "topics": topics}]}


def _acl_filter(stage: Stage) -> Values:
    name = stage.fresh("nobody")
    return {
        "resource_type_filter": 2, "resource_name_filter": name, "pattern_type_filter": 3,
        "principal_filter": f"User:{name}", "operation": 3, "permission_type": 3,
    }  # fmt: skip


def _create_acls(stage: Stage) -> Values:
    """Two things are wrong with it, so that no single change makes it right."""
    name = stage.fresh("nobody")
    acl = {
        "resource_type": 2, "resource_name": name, "resource_pattern_type": 3, "host": "*",
        "principal": f"User:{name}", "operation": 1, "permission_type": 1,
    }  # fmt: skip
    return {"creations": [acl]}


def _describe_configs(stage: Stage) -> Values:
    keys = ["retention.ms", "segment.bytes"]
    wanted = {"resource_type": 2, "resource_name": FULL, "configuration_keys": keys}
    return {"resources": [wanted], "include_synonyms": True}


def _alter_configs(stage: Stage) -> Values:
    change = {"name": "retention.ms", "value": "100000", "config_operation": 0}
    name = stage.made_topic(is_shared=True)
    return {"resources": [{"resource_type": 2, "resource_name": name, "configs": [change]}]}


def _move_to_directory(stage: Stage) -> Values:
    return {"dirs": [{"path": "/no-such", "topics": [{"name": FULL, "partitions": [0]}]}]}


def _elect(stage: Stage) -> Values:
    wanted = [{"topic": FULL, "partitions": [0]}]
    return {"election_type": 0, "topic_partitions": wanted, "timeout": _TIMEOUT_MS}


def _reassign(stage: Stage) -> Values:
    part = {"partition_index": 0, "replicas": [stage.caller.target.node_id]}
    topics = [{"name": stage.made_topic(is_shared=True), "partitions": [part]}]
    return {"topics": topics, "timeout": _TIMEOUT_MS}


def _update_features(stage: Stage) -> Values:
    update = {"feature": "no.such", "max_version_level": 1, "upgrade_type": 1}
    return {"feature_updates": [update], "timeout": _TIMEOUT_MS}


def _partitions(stage: Stage, *, of: str = TARGET) -> Values:
    return {
        "topics": [{"name": of, "topic": of, "partition_indexes": [0], "partitions": [0]}],
        "timeout": _TIMEOUT_MS,
    }


def _offset_delete(stage: Stage) -> Values:
    topics = [{"name": FULL, "partitions": [{"partition_index": 0}]}]
    return {"group_id": stage.offsets(is_shared=False), "topics": topics}


def _plain(values: Values) -> tuple[Usual]:
    return (Usual(lambda stage: values),)


_QUOTAS = {"components": [{"entity_type": "user", "match_type": 0, "match": TEXTS["unknown"]}]}
_LISTED = {"state_filters": ["Ongoing"], "producer_id_filters": [INT64], "duration_filter": -1}
_NEW_MEMBER = {
    "group_id": TEXTS["unknown"], "member_id": "AAAAAAAAAAAAAAAAAAAAAA", "member_epoch": 5,
    "subscribed_topic_names": [FULL],
}  # fmt: skip

USUAL: dict[int, tuple[Usual, ...]] = {
    0: (Usual(_produce),),
    1: (Usual(_fetch),),
    2: (Usual(_list_offsets),),
    3: (Usual(_metadata),),
    8: (Usual(_offset_commit),),
    9: (Usual(_offset_fetch),),
    10: (Usual(_find_coordinator),),
    11: (Usual(_join_group, fresh=True),),
    12: (Usual(_membership),),
    13: (Usual(_leave_group, fresh=True),),
    14: (Usual(_sync_group),),
    15: (Usual(lambda stage: {"groups": [stage.member().group]}),),
    16: (Usual(_list_groups),),
    17: _plain({"mechanism": "PLAIN"}),
    18: _plain({"client_software_name": "a", "client_software_version": "1"}),
    19: (Usual(_create_topics, fresh=True),),
    20: (Usual(_delete_topics, fresh=True),),
    21: (Usual(_delete_records),),
    22: (
        Usual(lambda stage: _init_producer_id(stage, stage.transactional_id()), of="transactions"),
        Usual(lambda stage: _init_producer_id(stage, None), of="a producer"),
    ),
    23: (Usual(_epochs),),
    24: (Usual(_transaction),),
    25: (Usual(_transaction),),
    26: (Usual(_transaction),),
    27: (Usual(_markers),),
    28: (Usual(_transaction),),
    29: (Usual(_acl_filter),),
    30: (Usual(_create_acls),),
    31: (Usual(lambda stage: {"filters": [_acl_filter(stage)]}),),
    32: (Usual(_describe_configs),),
    33: (Usual(_alter_configs),),
    34: (Usual(_move_to_directory),),
    35: (Usual(_partitions),),
    36: _plain({"auth_bytes": b"\0u\0p"}),
    37: (Usual(_create_partitions, fresh=True),),
    42: (Usual(lambda stage: {"groups_names": [stage.offsets(is_shared=False)]}, fresh=True),),
    43: (Usual(_elect),),
    44: (Usual(_alter_configs),),
    45: (Usual(_reassign),),
    46: (Usual(_partitions),),
    47: (Usual(_offset_delete, fresh=True),),
    48: _plain(_QUOTAS),
    50: _plain({"users": [{"name": TEXTS["unknown"]}]}),
    57: (Usual(_update_features),),
    60: _plain({"endpoint_type": 1}),
    61: (Usual(_partitions),),
    65: (Usual(lambda stage: {"transactional_ids": [stage.producer()[0]]}),),
    66: _plain(_LISTED),
    68: _plain(_NEW_MEMBER),
    69: _plain({"group_ids": [TEXTS["unknown"]]}),
    74: _plain({"resource_types": [2]}),
    75: (Usual(partial(_partitions, of=FULL)),),
    76: _plain(_NEW_MEMBER),
}
