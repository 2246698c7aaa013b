"""Command lines of `kafka-acls`, and what it prints: `python -m compat_tests.commands.acl_lines
--record` plays them with Apache Kafka's tools at Apache Kafka 3.9.2 with AclAuthorizer and at 4.3.1
with StandardAuthorizer, and writes down what is printed there.

One JVM per version runs all of them.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path

from compat_tests.answers.authorized import THEIRS, kbroker
from compat_tests.answers.rules import SETTLES_S
from compat_tests.commands.tool_runner import run_tool
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE

RECORDED = Path(__file__).with_name("acl_lines.json")
ACLS = {
    NEWEST: "org.apache.kafka.tools.AclCommand",
    ZOOKEEPER_LINE: "kafka.admin.AclCommand",
}
LINES = """\
--list
--add --allow-principal User:ann --operation Read --operation Describe --topic orders
--add --allow-principal User:ann --operation read --topic orders
--add --allow-principal User:ann --allow-host 10.0.0.7 --operation Write --topic orders
--add --deny-principal User:bob --deny-host 10.0.0.8 --operation All --topic orders
--add --allow-principal User:ann --allow-principal User:bob --operation All --topic *
--add --allow-principal User:ann --operation Read --topic ord --resource-pattern-type prefixed
--add --allow-principal User:ann --operation Read --group billing --topic orders
--add --allow-principal User:ann --producer --topic orders --idempotent
--add --allow-principal User:ann --producer --topic sales --transactional-id sales-1
--add --allow-principal User:bob --consumer --topic sales --group sales --resource-pattern-type prefixed
--add --allow-principal User:* --operation Describe --cluster
--add --allow-principal User:ann --operation CreateTokens --user-principal User:bob
--add --allow-principal User:ann --operation Describe --delegation-token abc
--add --allow-principal User:CN=ann,O=Acme --operation Read --topic certificates
--add --allow-principal User:ann --operation Write --group billing
--add --allow-principal User:ann --operation Rite --topic orders
--add --allow-principal ann --operation Read --topic orders
--add --allow-principal User:ann --operation Read
--add --allow-principal User:ann --consumer --topic orders
--add --topic orders --operation Read
--add --allow-principal User:ann --operation Read --topic orders --resource-pattern-type match
--list --topic orders
--list --topic orders --resource-pattern-type match
--list --topic ord --resource-pattern-type prefixed
--list --topic orders --resource-pattern-type any
--list --group sales --resource-pattern-type match
--list --cluster
--list --transactional-id sales-1
--list --principal User:ann
--list --principal User:ann --principal User:bob --topic orders
--list --topic none
--list
--remove --force --allow-principal User:ann --operation Describe --topic orders
--remove --force --deny-principal User:bob --deny-host 10.0.0.8 --operation All --topic orders
--remove --force --allow-principal User:ann --operation Write --topic orders
--remove --force --allow-principal User:bob --consumer --topic sales --group sales --resource-pattern-type prefixed
--remove --force --topic none
--remove --force --topic orders --resource-pattern-type match
--list
--remove --force --cluster
--remove --force --group billing --transactional-id sales-1 --delegation-token abc
--list
""".splitlines()

Ends = list[list[str]]
"""By line: the exit code, and what was printed, sorted as Java's sets have another order each time."""


def play(bootstrap: str, version: str, pause_s: float = 0.0) -> Ends:
    """How each line ends with the tool of this version."""
    ends = []
    for line in LINES:
        words = ["--bootstrap-server", bootstrap, *line.split()]
        done = run_tool(ACLS[version], *words, version=version)
        ends.append(ended(done.returncode, done.stdout))
        time.sleep(pause_s)
    return ends


def ended(code: int, printed: str) -> list[str]:
    """Exit code and lines; of an error the first sentence, without traces of Java."""
    lines = [line.strip() for line in printed.splitlines()]
    kept = (line for line in lines if line and "Tools" not in line and " has left" not in line)
    return [str(code), *sorted(kept)]


def main() -> None:
    """Record what is printed at Apache Kafka, or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    if parser.parse_args().record:
        theirs = {}
        for version, start in THEIRS.items():
            with start() as broker:
                theirs[version] = play(broker.bootstrap, version, SETTLES_S)
        text = json.dumps(theirs, ensure_ascii=False)
        RECORDED.write_text(re.sub(r'(\[|, )(?=\["\d)', r"\1\n", text) + "\n")
    print(*differences(), sep="\n")


def differences() -> list[str]:
    """A line for each command line that ends otherwise at kbroker."""
    found = []
    for version, theirs in json.loads(RECORDED.read_text()).items():
        with kbroker() as broker:
            ours = play(broker.bootstrap, version)
        found += [
            f"{version} {line}:\n  {one}\n  {other}"
            for line, one, other in zip(LINES, ours, theirs, strict=True)
            if one != other
        ]
    return found


if __name__ == "__main__":
    main()
