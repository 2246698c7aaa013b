"""Verdicts with the rules by which they are made."""

from __future__ import annotations

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation, AclPattern, AclResource, AclResourceType, Acls
from kbroker.acl.acl_filter import is_about
from kbroker.acl.acl_rules import SuperUsers
from kbroker.acl.rule_words import AclRule, rule_words
from kbroker.acl.verdict import Asked, of_other_hosts, verdict_on
from kbroker.cli.acl.rule_options import rules_in
from tests.fakes.acls.acl_model import Draw, is_granted

ORDERS = AclResource(AclResourceType.TOPIC, "orders")


def rules(*lines: str) -> list[AclRule]:
    return [rule for line in lines for rule in rules_in(line)]


@pytest.mark.parametrize(
    ("operation", "is_allowed", "by"),
    [
        (AclOperation.READ, True, "allow User:ann read --topic orders"),
        (AclOperation.DESCRIBE, True, "allow User:ann read --topic orders"),
        (
            AclOperation.DESCRIBE_CONFIGS,
            True,
            "allow User:ann alter-configs --topic ord --prefixed",
        ),
        (AclOperation.WRITE, False, "deny 'User:*' write --topic '*'"),
        (AclOperation.CREATE, False, "no rule allows it"),
    ],
)
def test_the_rule_that_decides_is_named(operation: AclOperation, is_allowed: bool, by: str) -> None:
    known = rules(
        "allow ann read,write --topic orders",
        "allow ann alter-configs --topic ord --prefixed",
        "deny '*' write --topic '*'",
        "deny ann read --topic orders --host 1.2.3.4",
    )
    asked = Asked("User:ann", "*", operation, ORDERS)

    assert verdict_on(asked, known) == (is_allowed, by)


def test_rules_for_other_hosts_are_known_and_do_not_count() -> None:
    known = rules(
        "deny ann all --topic orders --host 1.2.3.4", "allow bo all --topic orders --host ::1"
    )
    asked = Asked("User:ann", "*", AclOperation.READ, ORDERS)

    assert of_other_hosts(asked, known) == known[:1]
    assert verdict_on(asked._replace(host="1.2.3.4"), known).by == rule_words(known[0])
    assert verdict_on(asked._replace(resource=CLUSTER), []).by == "no rule is about it"


@pytest.mark.parametrize("seed", range(10))
def test_verdicts_are_those_of_a_walk_over_all_rules_and_name_one_that_exists(seed: int) -> None:
    draw = Draw(seed)
    stored: dict[AclPattern, Acls] = {draw.pattern(): draw.acls() for _ in range(8)}
    for _ in range(100):
        asked = Asked(*draw.question())
        about = [
            AclRule(pattern, acl)
            for pattern, acls in stored.items()
            for acl in acls
            if pattern.type is asked.resource.type and is_about(pattern, asked.resource.name)
        ]
        verdict = verdict_on(asked, about)

        assert verdict.is_allowed is is_granted(stored, SuperUsers(), asked)
        words = set(map(rule_words, about))
        assert verdict.by in words or (not verdict.is_allowed and verdict.by.startswith("no rule"))
