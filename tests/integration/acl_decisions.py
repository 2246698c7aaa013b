"""What rules allow, asked of kbroker and of Apache Kafka's own authorizers in a JVM, AclAuthorizer of
3.9.2 and StandardAuthorizer of 4.3.1.

    python -m tests.integration.acl_decisions --decisions 100000 --seed 1
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator

from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from compat_tests.running.shared_zookeeper import fresh_chroot
from kbroker.acl.acl import EVERYBODY, AclPattern, Acls
from kbroker.acl.acl_rules import AclRules, SuperUsers
from tests.fakes.acls.acl_model import Draw, Question

AUTHORIZERS = {
    ZOOKEEPER_LINE: "kafka.security.authorizer.AclAuthorizer",
    NEWEST: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
QUESTIONS = 1_000  # for each set of rules
SUPER_USER = "User:admin"
# With allow.everyone.if.no.acl.found AclAuthorizer says yes to a question about any resource, unless
# all of them are denied; StandardAuthorizer looks at the rules. What is decided here is the former.
_ON_ANY = "on any: "
_PATTERNS = 12

Stored = dict[AclPattern, Acls]
Round = tuple[Stored, list[Question]]


def rounds(seed: int, decisions: int) -> Iterator[Round]:
    """Rules, and wishes about the resources that they are about."""
    for number in range(max(1, decisions // (2 * QUESTIONS))):
        draw = Draw(seed * 1_000_000 + number)
        stored = {draw.pattern(): draw.acls() for _ in range(draw.random.randrange(_PATTERNS))}
        questions = [draw.question() for _ in range(QUESTIONS)]
        # At a client who is called `*`, StandardAuthorizer breaks.
        yield stored, [asked for asked in questions if asked.principal != EVERYBODY]


def ours(played: list[Round], *, is_open: bool) -> str:
    """The answers of kbroker: for each wish two, about its resource and about any of its kind."""
    answers = []
    for stored, questions in played:
        rules = AclRules(SuperUsers(frozenset({SUPER_USER}), is_open))
        rules.replace(stored)
        for asked in questions:
            principal, host, operation, resource = asked
            answers.append(rules.is_granted(*asked))
            kind = resource.type
            answers.append(rules.is_granted_somewhere(principal, host, operation, kind))
    return "".join("01"[answer] for answer in answers)


def theirs(version: str, played: list[Round], *, is_open: bool) -> str:
    """The answers of an authorizer of Apache Kafka."""
    lines: list[str] = []
    for stored, questions in played:
        for pattern, acls in stored.items():
            for acl in acls:
                words = (pattern.type.name, pattern.name, pattern.pattern_type.name, acl.principal)
                lines.append(
                    "\t".join(("R", *words, acl.host, acl.operation.name, acl.permission.name))
                )
        lines.append("go")
        for principal, host, operation, resource in questions:
            words = (principal, host, operation.name, resource.type.name, resource.name)
            lines += ["\t".join(("Q", *words)), "\t".join(("T", *words))]
    command = java_command(
        kept_classes("Decisions", version, "Asker"), version, "Decisions",
        AUTHORIZERS[version], SUPER_USER, str(is_open).lower(), fresh_chroot(),
    )  # fmt: skip
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout.strip().splitlines()[-1]


def differences(version: str, played: list[Round], *, is_open: bool) -> list[str]:
    """A line for each wish about which kbroker and an authorizer of Kafka do not agree."""
    asked = [
        f"{what}{question} by {stored}"
        for stored, questions in played
        for question in questions
        for what in ("", _ON_ANY)
    ]
    our, their = ours(played, is_open=is_open), theirs(version, played, is_open=is_open)
    assert len(our) == len(their) == len(asked)
    return [f"{a} not {b}: {q}" for a, b, q in zip(our, their, asked, strict=True) if a != b]


def main() -> int:
    """Print differences; the exit code is 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = 0
    for version, name in AUTHORIZERS.items():
        for is_open in (False, True):
            played = list(rounds(arguments.seed, arguments.decisions // 2))
            lines = differences(version, played, is_open=is_open)
            if version == NEWEST and is_open:
                lines = [line for line in lines if _ON_ANY not in line]
            found += len(lines)
            counted = 2 * sum(len(questions) for _, questions in played)
            print(f"{name} {version}, open {is_open}: {counted:,} decisions, {len(lines)} differ")
            print(*lines[:10], sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
