"""Access rules as raw sequences of requests, and what comes of each: `python -m
compat_tests.answers.rules` plays them to kbroker, to Apache Kafka 3.9.2 with AclAuthorizer and to
4.3.1 with StandardAuthorizer, and prints what differs without a reason; `--record` writes down what
Apache Kafka answers.

In each sequence an administrator makes rules drawn from a seed, a user tries every kind of request,
and the rules are described and deleted by filters.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any

from compat_tests.answers.authorized import Authorized, asked_of_each, kbroker
from compat_tests.answers.logins import AUTHENTICATE, HANDSHAKE, plain
from compat_tests.clients.raw_connection import ClosedError, RawConnection
from compat_tests.wire.record_bytes import Batch

RECORDED = Path(__file__).with_name("rules.json")
SEQUENCES, RECORDED_SEQUENCES = 250, 60
TOPICS = ("t", "to", "open")
DENIED = {29, 30, 31, 53, 65}
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = range(2, 8)
ANY, MATCH, LITERAL, PREFIXED = range(1, 5)
DENY, ALLOW = 2, 3
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
SETTLES_S = 0.15  # the time in which a broker of KRaft hears of the rules that its controller made
EVERYTHING = {
    "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY,
    "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY,
}  # fmt: skip

Values = dict[str, Any]
Outcome = list[str]


class Played:
    """A broker with a super user's connection and one of a user who needs rules."""

    def __init__(self, broker: Authorized) -> None:
        self.bootstrap = broker.bootstrap  # of the administrator
        self.admin = RawConnection(broker.bootstrap, 20)
        self._port = broker.port
        self._pause_s = SETTLES_S if broker.settles else 0.0
        self.user = self._logged_in()
        topics = [{"name": n, "num_partitions": 1, "replication_factor": 1} for n in TOPICS]
        self.admin.call(19, 5, topics=topics, timeout=10_000)

    def _logged_in(self) -> RawConnection:
        connection = RawConnection(f"127.0.0.1:{self._port}", 20)
        connection.call(HANDSHAKE, 1, mechanism="PLAIN")
        assert connection.call(AUTHENTICATE, 2, auth_bytes=plain()).error_code == 0
        return connection

    def settle(self) -> None:
        """Let a change of rules come into force."""
        time.sleep(self._pause_s)

    def asked(self, key: int, version: int, values: Values) -> str:
        """The answer to a user's request: codes of refusals, and what may be done."""
        try:
            return ", ".join(shown(self.user.call(key, version, **values)))
        except ClosedError:
            self.user = self._logged_in()
            return "closed"

    def changed(self, key: int, version: int, values: Values) -> Any:
        """The answer to the super user."""
        return self.admin.call(key, version, **values)


def shown(answer: Any) -> list[str]:
    """Codes of an answer with the names beside them, in order; codes that deny nothing are all one,
    and operations that may be done are given in full.
    """
    return sorted(set(_shown(answer, "")))


def _shown(entity: Any, name: str) -> Iterator[str]:
    for label in ("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name"):
        name = str(getattr(entity, label, None) or name)
    for field in fields(entity):
        value = getattr(entity, field.name)
        if field.name.endswith("error_code"):
            yield f"{name} {int(value) if int(value) in DENIED else 'ok'}"
        elif field.name.endswith("authorized_operations"):
            yield f"{name} may {int(value)}"
        elif isinstance(value, tuple):
            for each in value:
                if is_dataclass(each):
                    yield from _shown(each, name)


class Draw:
    """Draws the rules of a sequence, and filters that find some of them."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.one_of = self._random.choice

    def rule(self) -> Values:
        kind = self.one_of((TOPIC, TOPIC, TOPIC, GROUP, GROUP, CLUSTER, TRANSACTIONAL_ID))
        name = "kafka-cluster" if kind == CLUSTER else self.one_of(("t", "to", "o", "open", "*"))
        return {
            "resource_type": kind, "resource_name": name,
            "resource_pattern_type": self.one_of((LITERAL, PREFIXED)),
            "principal": self.one_of(("User:ann", "User:ann", "User:*", "User:bob")),
            "host": self.one_of(("*", "*", "127.0.0.1", "10.0.0.1")),
            "operation": self.one_of(range(2, 13)),
            "permission_type": self.one_of((ALLOW, ALLOW, ALLOW, DENY)),
        }  # fmt: skip

    def spoilt_rule(self) -> Values:
        spoilt = self.one_of(
            (
                {"resource_name": ""}, {"resource_type": 77}, {"operation": 77},
                {"resource_type": CLUSTER, "resource_name": "other"}, {"permission_type": 77},
                {"resource_type": GROUP, "resource_name": "a/b"}, {"resource_pattern_type": 77},
            )
        )  # fmt: skip
        return self.rule() | spoilt

    def filter(self) -> Values:
        return {
            "resource_type_filter": self.one_of((ANY, TOPIC, GROUP, CLUSTER, 77)),
            "resource_name_filter": self.one_of((None, "t", "to", "topper", "*", "")),
            "pattern_type_filter": self.one_of((ANY, MATCH, LITERAL, PREFIXED)),
            "principal_filter": self.one_of((None, "User:ann", "User:*", "nobody")),
            "host_filter": self.one_of((None, "*", "127.0.0.1")),
            "operation": self.one_of((ANY, ANY, 2, 3, 4, 8)),
            "permission_type": self.one_of((ANY, ALLOW, DENY)),
        }


def requests() -> Iterator[tuple[int, int, Values]]:
    """Every kind of request that a user may send: to topics that are there and one that is not,
    each in a request of its own, so that one refusal hides no other.
    """
    records = Batch(timestamp_ms=1_700_000_000_000).to_bytes()
    for name in (*TOPICS, "topper"):
        at = [{"partition_index": 0}]
        topic = [{"name": name, "partitions": at}]
        yield 3, 8, {"topics": [{"name": name}], "include_topic_authorized_operations": True}
        data = [{"name": name, "partition_data": [{"index": 0, "records": records}]}]
        yield 0, 7, {"transactional_id": None, "acks": 1, "timeout": 5_000, "topic_data": data}
        fetched = [{"topic": name, "partitions": [{"partition": 0, "partition_max_bytes": 1}]}]
        yield 1, 11, {"replica_id": -1, "topics": fetched, "session_epoch": -1}
        yield 2, 5, {"replica_id": -1, "topics": topic}
        yield 9, 5, {"group_id": "to", "topics": [{"name": name, "partition_indexes": [0]}]}
        created = [{"name": f"{name}-new", "num_partitions": 1, "replication_factor": 1}]
        yield 19, 5, {"topics": created, "validate_only": True}
        yield 21, 1, {"topics": [{"name": name, "partitions": [{"partition_index": 0}]}]}
        asked = [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]}]
        yield 23, 3, {"replica_id": -1, "topics": asked}
        resource = {"resource_type": 2, "resource_name": name}
        yield 32, 1, {"resources": [resource | {"configuration_keys": []}]}
        change = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
        yield 44, 0, {"resources": [resource | {"configs": [change]}], "validate_only": True}
        more = [{"name": name, "count": 2, "assignments": None}]
        yield 37, 1, {"topics": more, "validate_only": True}
        committed = [{"name": name, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
        yield 8, 5, {"group_id": "to", "topics": committed}
        yield 61, 0, {"topics": [{"name": name, "partition_indexes": [0]}]}
    yield 20, 5, {"topic_names": ["topper"], "timeout": 1_000}
    yield 3, 8, {"topics": None, "include_cluster_authorized_operations": True}
    for group in ("t", "to"):
        yield 10, 1, {"key": group, "key_type": 0}
        yield 10, 1, {"key": group, "key_type": 1}
        yield 12, 0, {"group_id": group, "generation_id": 1, "member_id": "m"}
        yield 15, 5, {"groups": [group], "include_authorized_operations": True}
        yield 42, 1, {"groups_names": [group]}
        yield 26, 1, {"transactional_id": group, "producer_id": 1, "committed": True}
        yield 65, 0, {"transactional_ids": [group]}
    yield 22, 1, {"transactional_id": None, "transaction_timeout": 1_000}
    yield 60, 0, {"include_cluster_authorized_operations": True}
    yield 29, 1, EVERYTHING
    yield 35, 4, {"topics": None}
    yield 46, 0, {"topics": None, "timeout": 1_000}
    yield 48, 1, {"components": [], "strict": False}
    yield (
        32,
        1,
        {"resources": [{"resource_type": 4, "resource_name": "1", "configuration_keys": []}]},
    )


def sequence(played: Played, seed: int) -> Outcome:
    """Play one sequence."""
    draw = Draw(seed)
    played.changed(DELETE_ACLS, 1, {"filters": [EVERYTHING]})
    came: Outcome = []
    for _ in range(draw.one_of((1, 2, 3))):
        rules = [draw.rule() for _ in range(draw.one_of((1, 2, 4)))]
        if draw.one_of((True, False)):
            rules.append(draw.spoilt_rule())
        answer = played.changed(CREATE_ACLS, draw.one_of((1, 2, 3)), {"creations": rules})
        came.append(f"create {[(int(r.error_code), r.error_message) for r in answer.results]}")
    played.settle()
    every = list(requests())
    for number in range(12):
        key, version, values = every[(seed * 12 + number) % len(every)]
        came.append(f"{key} {played.asked(key, version, values)}")
    for asked in (EVERYTHING, draw.filter(), draw.filter()):
        answer = played.changed(DESCRIBE_ACLS, 3, asked)
        came.append(f"describe {int(answer.error_code)} {answer.error_message} {_rules(answer)}")
    filters = [draw.filter(), draw.filter()]
    answer = played.changed(DELETE_ACLS, 3, {"filters": filters})
    for result in answer.filter_results:
        deleted = sorted(
            str([int(each.error_code), each.error_message, each.resource_name, each.principal,
                 int(each.pattern_type), int(each.operation), int(each.permission_type)])
            for each in result.matching_acls
        )  # fmt: skip
        came.append(f"delete {int(result.error_code)} {result.error_message} {deleted}")
    played.settle()
    came.append(f"left {_rules(played.changed(DESCRIBE_ACLS, 2, EVERYTHING))}")
    return came


def _rules(answer: Any) -> list[str]:
    return sorted(
        f"{int(r.resource_type)} {r.resource_name} {int(r.pattern_type)} {a.principal} {a.host} "
        f"{int(a.operation)} {int(a.permission_type)}"
        for r in answer.resources
        for a in r.acls
    )


def play(played: Played, count: int) -> dict[str, Outcome]:
    """Play the sequences of the first seeds."""
    return {str(seed): sequence(played, seed) for seed in range(count)}


DIFFERENT = {
    "29.12": "whether the coordinator of a group has begun its work, at that moment",
}
"""By sequence and step: the reason for which it may differ."""


def unexplained(ours: dict[str, Outcome], theirs: dict[str, dict[str, Outcome]]) -> list[str]:
    """Return a line for each step whose outcome is that of neither."""
    lines = []
    for seed, came in ours.items():
        for number, step in enumerate(came):
            wanted = [each[seed][number] for each in theirs.values()]
            if step not in wanted and f"{seed}.{number}" not in DIFFERENT:
                lines.append(f"{seed}.{number}: {step}\n    not {wanted}")
    return lines


def record(theirs: dict[str, dict[str, Outcome]]) -> None:
    """Write down what came of the first sequences, each on a line."""
    kept = {
        version: {seed: came for seed, came in played.items() if int(seed) < RECORDED_SEQUENCES}
        for version, played in theirs.items()
    }
    text = json.dumps(kept, ensure_ascii=False)
    RECORDED.write_text(re.sub(r'(\]|\{)(, |)"(?=[\d.]+": [\[{])', r'\1\2\n"', text) + "\n")


def main() -> None:
    """Play them to all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--sequences", type=int, default=SEQUENCES)
    arguments = parser.parse_args()
    theirs = asked_of_each(lambda broker: play(Played(broker), arguments.sequences))
    if arguments.record:
        record(theirs)
    with kbroker() as broker:
        ours = play(Played(broker), arguments.sequences)
    apart = sum(
        one != other
        for each in zip(*(t.values() for t in theirs.values()), strict=True)
        for one, other in zip(*each, strict=True)
    )
    lines = unexplained(ours, theirs)
    print(f"{len(ours)} sequences, {len(lines)} unexplained; {apart} steps differ between theirs")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
