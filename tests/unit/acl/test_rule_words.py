"""Rules in the words of `kbroker acl`."""

from __future__ import annotations

import re

import pytest

from kbroker.acl.acl import AclOperation, AclResourceType
from kbroker.acl.rule_words import (
    RuleWordError,
    check_fits,
    host_of,
    operations_of,
    principal_of,
    rule_words,
)
from kbroker.cli.acl.rule_options import rules_in

LINES = [
    "allow User:ann read --topic orders- --prefixed",
    "allow 'User:ann smith' describe-configs --topic '*'",
    "deny 'User:*' all --cluster --host 10.0.0.7",
    "allow User:ann write --transactional-id 'billing app'",
    "allow User:ann describe --token tok --host 0:0:0:0:0:0:0:1",
    "allow User:ann create-tokens --user User:bo",
]


@pytest.mark.parametrize("line", LINES)
def test_what_a_rule_is_printed_as_makes_the_same_rule(line: str) -> None:
    (rule,) = rules_in(line)

    assert rule_words(rule) == line


def test_a_line_makes_a_rule_for_each_operation_resource_and_host() -> None:
    rules = rules_in(
        "allow ann Read,DESCRIBE_CONFIGS,read --topic a --topic b --host ::1 --host 1.2.3.4"
    )

    assert len(rules) == len(set(rules)) == 8
    assert {rule.acl.host for rule in rules} == {"0:0:0:0:0:0:0:1", "1.2.3.4"}


def test_producers_and_consumers_get_what_kafkas_own_tool_gives_them() -> None:
    line = "allow ann --producer --consumer --idempotent --topic t --group g --transactional-id x"

    assert sorted(map(rule_words, rules_in(line))) == [
        "allow User:ann create --topic t",
        "allow User:ann describe --topic t",
        "allow User:ann describe --transactional-id x",
        "allow User:ann idempotent-write --cluster",
        "allow User:ann read --group g",
        "allow User:ann read --topic t",
        "allow User:ann write --topic t",
        "allow User:ann write --transactional-id x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "it begins with neither allow nor deny"),
        ("permit ann read --topic t", "it begins with neither allow nor deny"),
        ("allow ann read --topic 't", "No closing quotation"),
        ("allow", "Missing argument 'PRINCIPAL'"),
        ("allow ann", "no resource is given: add one of --topic, --group, --cluster"),
        ("allow ann --topic t", "no operation is given: add one, or --producer or --consumer"),
        ("deny ann --topic t", "no operation is given: add one"),
        ("allow ann , --topic t", "no operation is given"),
        ("allow ann raed --topic t", "no such operation: raed, did you mean read?"),
        ("allow ann any --topic t", "no such operation: any (there are all, read"),
        ("allow ann write --group g", "write means nothing for --group (there are read, delete"),
        ("allow ann read --topic 'or*'", "give --topic or --prefixed"),
        ("allow ann read --topic 'a b'", "other than ASCII alphanumerics"),
        ("allow ann read --topic '*' --prefixed", "'*' is every topic already"),
        ("allow ann read --topic ''", "--topic is empty"),
        ("allow '' read --topic t", "a principal has a name"),
        ("allow user:ann read --topic t", "no such type of principals: user, did you mean User:?"),
        ("allow ann read --topic t --host here", "here is not an IP address"),
        ("allow ann read --topic t --idempotent", "--idempotent is for --producer"),
        ("allow ann read --topic t --producer", "stand for operations: give either"),
        ("allow ann --producer --group g", "--producer needs --topic"),
        ("allow ann --producer --topic t --group g", "--group does not go with --producer"),
        ("allow ann --consumer --topic t", "--consumer needs --group"),
        ("deny ann --producer --topic t", "--producer and --consumer are for what is allowed"),
        ("allow ann read --topics t", "--topics"),
        ("allow ann read --help", "--help"),
    ],
)
def test_a_line_that_is_not_a_rule_is_refused_with_the_reason(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{line!r} is not a rule: ")) as refused:
        rules_in(line)

    assert why in str(refused.value)


def test_words_stand_for_members_however_they_are_written() -> None:
    assert operations_of("Read, idempotent_write,AlterConfigs") == [
        AclOperation.READ, AclOperation.IDEMPOTENT_WRITE, AclOperation.ALTER_CONFIGS,
    ]  # fmt: skip
    assert principal_of("Group:a:b") == "Group:a:b"
    assert host_of("::ffff:10.0.0.7") == "10.0.0.7"
    check_fits(AclOperation.ALL, AclResourceType.GROUP)
    with pytest.raises(RuleWordError):
        check_fits(AclOperation.CREATE, AclResourceType.GROUP)
