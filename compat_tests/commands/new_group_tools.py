"""`kafka-groups` and `kafka-consumer-groups` of Apache Kafka 4.3.1, unchanged, and what they print of
groups of the new protocol: `python -m compat_tests.commands.new_group_tools --record` writes down
what they print of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from uuid import UUID

from compat_tests.answers.consumer_group_steps import Stage, Step, beat, commit, join
from compat_tests.answers.consumer_groups import apache
from compat_tests.commands.tool_runner import run_tool
from compat_tests.wire.wire_client import METADATA, WireClient

RECORDED = Path(__file__).with_name("new_group_tools.json")
_GROUPS = "org.apache.kafka.tools.GroupsCommand"
_OF_CONSUMERS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_TOPIC = "t6"
_HELD: tuple[Step, ...] = (
    join("m1", _TOPIC), join("m2", _TOPIC, instance_id="i"), beat("m1"),
    beat("m1", owned={_TOPIC: [0, 1, 2]}), beat("m2", instance_id="i"), beat("m1"),
    commit("m1", place="t6:0"), commit("m2", place="t6:5", instance="i"),
)  # fmt: skip
_EMPTY: tuple[Step, ...] = (join("m", _TOPIC), commit("m", place="t6:1"), beat("m", -1))
_G = ("--group", "held")

FORMS: tuple[tuple[str, ...], ...] = (
    (_GROUPS, "--list"),
    (_GROUPS, "--list", "--group-type", "consumer"),
    (_GROUPS, "--list", "--consumer"),
    (_OF_CONSUMERS, "--list", "--state"),
    (_OF_CONSUMERS, "--list", "--type"),
    (_OF_CONSUMERS, "--list", "--type", "classic"),
    (_OF_CONSUMERS, "--describe", *_G),
    (_OF_CONSUMERS, "--describe", *_G, "--offsets", "--verbose"),
    (_OF_CONSUMERS, "--describe", *_G, "--members", "--verbose"),
    (_OF_CONSUMERS, "--describe", *_G, "--state", "--verbose"),
    (_OF_CONSUMERS, "--describe", "--group", "empty"),
    (_OF_CONSUMERS, "--describe", "--group", "none"),
    (_OF_CONSUMERS, "--delete", *_G),
    (_OF_CONSUMERS, "--delete-offsets", *_G, "--topic", _TOPIC),
    (_OF_CONSUMERS, "--reset-offsets", *_G, "--topic", _TOPIC, "--to-earliest", "--dry-run"),
    (_OF_CONSUMERS, "--reset-offsets", "--group", "empty", "--topic", _TOPIC, "--shift-by", "1",
     "--execute"),
    (_OF_CONSUMERS, "--delete-offsets", "--group", "empty", "--topic", f"{_TOPIC}:1"),
    (_OF_CONSUMERS, "--delete", "--group", "empty"),
    (_OF_CONSUMERS, "--list"),
)  # fmt: skip


def printed(bootstrap: str) -> list[list[str]]:
    """Make two groups and run the tools in all forms; returns status and lines of each."""
    wire = WireClient(bootstrap)
    wire.create_topic(_TOPIC, 6)
    wire.wait_for_coordinator("held")
    told = wire.call(METADATA, 12, topics=[{"topic_id": UUID(int=0), "name": _TOPIC}])
    ids = {_TOPIC: told.topics[0].topic_id}
    for group, steps in (("held", _HELD), ("empty", _EMPTY)):
        stage = Stage(bootstrap, wire, group, 0, dict(ids))
        for step in steps:
            assert step(stage).startswith("0"), group
    found = []
    for form in FORMS:
        done = run_tool(form[0], "--bootstrap-server", bootstrap, *form[1:])
        lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        said = [_settled(line).replace(bootstrap, "ADDRESS") for line in lines]
        kept = sorted(line for line in said if line and not line.startswith(("\tat ", "SLF4J")))
        found.append([f"{' '.join(form)}: {done.returncode}", *kept])
    wire.close()
    return found


def _settled(line: str) -> str:
    """A line without the widths of its columns, which depend on ports, and without host and number
    of the broker.
    """
    spaced = re.sub(r" +", " ", line).strip()
    return re.sub(r"127\.0\.0\.1:\d+ \(\d+\)", "BROKER", spaced)


def main() -> None:
    """Write down what is printed of Apache Kafka."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", required=True)
    parser.parse_args()
    with apache() as bootstrap:
        theirs = printed(bootstrap)
    RECORDED.write_text(json.dumps(theirs, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
