"""`kafka-configs --entity-type groups` of Apache Kafka 4.3.1, unchanged, and what it prints: `python -m
compat_tests.commands.group_configs --record` writes down what it prints of Apache Kafka 4.3.1.

Settings of share groups and streams groups are left out of what it prints.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from compat_tests.answers.group_settings import SETTLES_S, apache
from compat_tests.commands.tool_runner import run_tool

RECORDED = Path(__file__).with_name("group_configs.json")
CONFIGS = "kafka.admin.ConfigCommand"
_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
_OF_GROUPS = ("--entity-type", "groups")
_OF_G = (*_OF_GROUPS, "--entity-name", "g")
_LEFT_OUT = ("  share.", "  streams.", "\tat ", "SLF4J")
_OF_ONE_GROUP = "Dynamic configs for group"
_FILE = "FILE"

FORMS: tuple[tuple[str, ...], ...] = (
    (*_OF_GROUPS, "--describe"),
    (*_OF_G, "--describe"),
    (*_OF_G, "--describe", "--all"),
    (*_OF_G, "--alter", "--add-config", f"{_SESSION}=50000,{_HEARTBEAT}=6000"),
    (*_OF_G, "--describe"),
    ("--group", "g", "--describe", "--all"),
    ("--group", "h i", "--alter", "--add-config", "consumer.assignment.interval.ms=0"),
    (*_OF_GROUPS, "--describe"),
    ("--group", "h i", "--alter", "--add-config-file", _FILE),
    ("--group", "h i", "--describe"),
    (*_OF_G, "--alter", "--add-config", f"{_SESSION}=1"),
    (*_OF_G, "--alter", "--add-config", f"{_SESSION}=soon"),
    (*_OF_G, "--alter", "--add-config", "no.such=1"),
    (*_OF_G, "--alter", "--delete-config", "no.such"),
    (*_OF_G, "--alter", "--delete-config", _SESSION),
    (*_OF_G, "--describe"),
    (*_OF_G, "--alter", "--add-config", f"{_SESSION}=55000", "--delete-config", _HEARTBEAT),
    (*_OF_G, "--alter", "--delete-config", f"{_SESSION},{_HEARTBEAT}"),
    (*_OF_GROUPS, "--describe"),
    (*_OF_GROUPS, "--alter", "--add-config", f"{_SESSION}=50000"),
    (*_OF_GROUPS, "--entity-default", "--describe"),
    (*_OF_GROUPS, "--entity-default", "--alter", "--add-config", f"{_SESSION}=50000"),
)


def printed(bootstrap: str, settles_s: float) -> list[list[str]]:
    """Run the tool in all forms; returns status and lines of each."""
    found = []
    with tempfile.TemporaryDirectory(prefix="group-configs-") as root:
        file = Path(root) / "settings"
        file.write_text(f"{_SESSION}=51000\n")
        for form in FORMS:
            words = [str(file) if word == _FILE else word for word in form]
            done = run_tool(CONFIGS, "--bootstrap-server", bootstrap, *words)
            time.sleep(settles_s)
            lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
            said = [line.replace(bootstrap, "ADDRESS").replace(root, "") for line in lines]
            found.append([f"{' '.join(form)}: {done.returncode}", *_in_order(said)])
    return found


def _in_order(lines: list[str]) -> list[str]:
    """Leave out what is not about consumer groups, and put groups, which come in any order, by name."""
    kept = [line for line in lines if line and not line.startswith(_LEFT_OUT)]
    blocks: list[list[str]] = [[]]
    for line in kept:
        if line.startswith(_OF_ONE_GROUP):
            blocks.append([])
        blocks[-1].append(line)
    return [line for block in sorted(blocks) for line in block]


def main() -> None:
    """Write down what is printed of Apache Kafka."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", required=True)
    parser.parse_args()
    with apache() as bootstrap:
        theirs = printed(bootstrap, SETTLES_S)
    RECORDED.write_text(json.dumps(theirs, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
