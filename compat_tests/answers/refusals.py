"""The words beside the codes with which a user without rights is refused: `python -m
compat_tests.answers.refusals` sends requests of all kinds to kbroker, to Apache Kafka 3.9.2 with
AclAuthorizer and to 4.3.1 with StandardAuthorizer, and prints what differs without a reason;
`--record` writes down what Apache Kafka says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from compat_tests.answers.authorized import Authorized, asked_of_each, kbroker
from compat_tests.answers.rules import DENIED, Played, Values, requests
from compat_tests.clients.raw_connection import ClosedError

RECORDED = Path(__file__).with_name("refusals.json")
Said = dict[str, list[str]]
"""By request: the codes with their names and texts."""

_A_JAVA_OBJECT = "Request Request("
_PARTITION = [{"partition_index": 0}]
_COMMITTED = [{"partition_index": 0, "committed_offset": 1}]

DIFFERENT: Mapping[int, str] = MappingProxyType(
    {
        29: "Apache Kafka says a Java object",
        30: "Apache Kafka says a Java object",
        43: "the code of the whole answer is enough",
        45: "Apache Kafka says a Java object, and again for each partition",
        46: "Apache Kafka says a Java object",
    }
)
"""By key of the request: why another text, or none, is beside the code."""


def more_requests() -> Iterator[tuple[int, int, Values]]:
    """Requests of the kinds and versions that `rules.requests` does not send."""
    topic = [{"name": "t", "partitions": _PARTITION}]
    change = {"name": "retention.ms", "value": "1000"}
    yield 43, 2, {"topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout": 1_000}
    replicas = [{"partition_index": 0, "replicas": [1]}]
    yield 45, 0, {"timeout": 1_000, "topics": [{"name": "t", "partitions": replicas}]}
    yield 47, 0, {"group_id": "g", "topics": topic}
    entity = [{"entity_type": "user", "entity_name": "a"}]
    ops = [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]
    yield 49, 1, {"entries": [{"entity": entity, "ops": ops}], "validate_only": True}
    yield 50, 0, {"users": [{"name": "a"}]}
    yield 51, 0, {"deletions": [{"name": "a", "mechanism": 1}], "upsertions": []}
    update = {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}
    yield 57, 1, {"timeout": 1_000, "feature_updates": [update], "validate_only": True}
    yield 34, 2, {"dirs": [{"path": "/x", "topics": [{"name": "t", "partitions": [0]}]}]}
    for kind, name in ((2, "t"), (4, "1")):
        resource = {"resource_type": kind, "resource_name": name}
        yield 33, 2, {"resources": [resource | {"configs": [change]}], "validate_only": True}
        ops = [change | {"config_operation": 0}]
        yield 44, 1, {"resources": [resource | {"configs": ops}], "validate_only": True}
    rule = {
        "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "host": "*",
        "principal": "User:a", "operation": 3, "permission_type": 3,
    }  # fmt: skip
    yield 30, 3, {"creations": [rule]}
    yield 8, 8, {"group_id": "g", "topics": [{"name": "t", "partitions": _COMMITTED}]}
    committed = {"group_id": "g", "topics": [{"name": "t", "partitions": _COMMITTED}]}
    yield 28, 3, {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, **committed}
    yield 25, 3, {"transactional_id": "x", "producer_id": 1, "group_id": "g"}
    yield 22, 4, {"transactional_id": "x", "transaction_timeout": 1_000}
    for kind in (0, 1):
        yield 10, 3, {"key_type": kind, "key": "g"}
        yield 10, 4, {"key_type": kind, "coordinator_keys": ["g"]}
    yield 9, 8, {"groups": [{"group_id": "g", "topics": []}], "require_stable": False}
    yield 13, 4, {"group_id": "g", "members": [{"member_id": "m", "group_instance_id": None}]}


def said(broker: Authorized) -> Said:
    """Send all requests as a user without rights; returns what is refused, and how."""
    played, found = Played(broker), {}
    for number, (key, version, values) in enumerate((*requests(), *more_requests())):
        try:
            lines = sorted(set(_refusals(played.user.call(key, version, **values), "")))
        except ClosedError as error:
            raise AssertionError(f"request {key} of version {version}: closed") from error
        found[f"{number}: {key} v{version}"] = lines
    return found


def _refusals(entity: Any, name: str) -> Iterator[str]:
    for label in ("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name"):
        name = str(getattr(entity, label, None) or name)
    for field in fields(entity):
        value = getattr(entity, field.name)
        if field.name.endswith("error_code") and int(value) in DENIED:
            text = str(getattr(entity, field.name.replace("code", "message"), "-"))
            text = "(a Java object)" if text.startswith(_A_JAVA_OBJECT) else text
            yield f"{type(entity).__name__} {name} {int(value)} {text}"
        elif isinstance(value, tuple):
            for each in value:
                if is_dataclass(each):
                    yield from _refusals(each, name)


def unexplained(ours: Said) -> list[str]:
    """Return a line for each request whose refusal has other words than at both, without a reason."""
    theirs: dict[str, Said] = json.loads(RECORDED.read_text())
    found = []
    for request, lines in ours.items():
        wanted = [each[request] for each in theirs.values()]
        if lines not in wanted and int(request.split()[1]) not in DIFFERENT:
            found.append(f"{request}: {lines}, not {wanted}")
    return found


def main() -> None:
    """Compare, or record what Apache Kafka says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    if parser.parse_args().record:
        theirs = asked_of_each(said)
        RECORDED.write_text(json.dumps(theirs, indent=0) + "\n")
    with kbroker() as broker:
        found = unexplained(said(broker))
    print(*found, f"{len(found)} refusals have other words", sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
