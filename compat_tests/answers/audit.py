"""The audit log: what a broker logs of its decisions while a user with few rights sends every kind of
request. `python -m compat_tests.answers.audit` plays it to kbroker and to Apache Kafka 3.9.2, and
prints what differs without a reason; `--record` writes down what Apache Kafka logs.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat_tests.answers.authorized import Authorized, kbroker, with_zookeeper
from compat_tests.answers.rules import (
    ALLOW,
    CLUSTER,
    CREATE_ACLS,
    GROUP,
    LITERAL,
    PREFIXED,
    TOPIC,
    Played,
    requests,
)

RECORDED = Path(__file__).with_name("audit.json")
READ, DESCRIBE, DESCRIBE_CONFIGS = 3, 8, 10
RULES = (
    (TOPIC, "open", LITERAL, READ), (TOPIC, "to", PREFIXED, DESCRIBE),
    (TOPIC, "t", LITERAL, DESCRIBE_CONFIGS), (GROUP, "to", LITERAL, READ),
    (CLUSTER, "kafka-cluster", LITERAL, DESCRIBE),
)  # fmt: skip
_INCREMENTAL_ALTER_CONFIGS, _BROKER_LOGGER = 44, 8
_LINE = re.compile(r"\b(TRACE|DEBUG|INFO)\b.*?(Principal = User:ann .*?resourceRefCount = \d+)")

DIFFERENT = {
    r"DEBUG .* Allowed Operation = Describe .*:topper for request = DeleteTopics": (
        "whether it may be described is not asked of a topic that may not be deleted and is not there"
    ),
    r"TRACE .* Denied Operation = DescribeConfigs .*-new for request = CreateTopics": (
        "whether settings may be described is asked of topics that were created"
    ),
}
"""Lines that Apache Kafka alone has, as patterns, with the reason for it."""

ONLY_HERE = {
    r"TRACE .* Operation = (Describe|Alter)Configs .* resource = Group:.* for request = DescribeGroups": (
        "single groups have settings, as in 4.3, which shows whether they may be seen and changed"
    ),
}
"""Lines that kbroker alone has."""


def lines_of(broker: Authorized) -> list[str]:
    """Play every kind of request, and return the different lines of the audit log."""
    rules = [
        {
            "resource_type": kind, "resource_name": name, "resource_pattern_type": pattern,
            "principal": "User:ann", "host": "*", "operation": operation, "permission_type": ALLOW,
        }
        for kind, name, pattern, operation in RULES
    ]  # fmt: skip
    played = Played(broker)
    played.changed(CREATE_ACLS, 3, {"creations": rules})
    _begin_groups(played)
    answer = played.changed(3, 8, {"topics": None})
    level = {"name": "kafka.authorizer.logger", "config_operation": 0, "value": "TRACE"}
    resource = {
        "resource_type": _BROKER_LOGGER,
        "resource_name": str(int(answer.brokers[0].node_id)),
        "configs": [level],
    }
    altered = played.changed(
        _INCREMENTAL_ALTER_CONFIGS, 0, {"resources": [resource], "validate_only": False}
    )
    assert int(altered.responses[0].error_code) == 0, altered
    for key, version, values in requests():
        played.asked(key, version, values)
    found = {f"{level} {line}" for level, line in _LINE.findall(broker.log())}
    return sorted(found)


def _begin_groups(played: Played) -> None:
    """Have the coordinators of groups begin their work."""
    deadline_s = time.monotonic() + 30
    for group in ("t", "to"):
        while int(played.changed(9, 5, {"group_id": group, "topics": []}).error_code):
            played.changed(10, 1, {"key": group, "key_type": 0})
            assert time.monotonic() < deadline_s, "no coordinator has come"
            time.sleep(0.02)


def unexplained(ours: list[str], theirs: list[str]) -> list[str]:
    """Return the lines that one of both has without a reason, and reasons that are not needed."""
    found = _without_reason("here", [line for line in ours if line not in theirs], ONLY_HERE)
    return found + _without_reason(
        "there", [line for line in theirs if line not in ours], DIFFERENT
    )


def _without_reason(side: str, lines: list[str], known: Mapping[str, str]) -> list[str]:
    reasons = {line: next((p for p in known if re.match(p, line)), None) for line in lines}
    found = [f"only {side}: {line}" for line, reason in reasons.items() if reason is None]
    return found + [f"no reason needed: {p}" for p in known if p not in reasons.values()]


def main() -> None:
    """Play it to both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    arguments: Any = parser.parse_args()
    with with_zookeeper() as broker:
        theirs = lines_of(broker)
    if arguments.record:
        RECORDED.write_text(json.dumps(theirs, indent=0) + "\n")
    with kbroker() as broker:
        ours = lines_of(broker)
    found = unexplained(ours, theirs)
    for line in found:
        print(line)
    print(f"{len(ours)} lines here, {len(theirs)} there, {len(found)} differ without a reason")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
