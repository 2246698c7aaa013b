"""What rules allow, against a model that walks over all of them, and what is remembered."""

from __future__ import annotations

import pytest

from kbroker.acl import acl_rules
from kbroker.acl.acl import (
    CLOSED,
    CLUSTER,
    Acl,
    AclOperation,
    AclPattern,
    AclResource,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.acl.acl_filter import AclFilter
from kbroker.acl.acl_rules import KNOWN_MAX, AclRules, SuperUsers
from tests.faults.acl_hunt import disagreements

TOPIC = AclResourceType.TOPIC
ANN_READS = Acl("User:ann", "*", AclOperation.READ, Permission.ALLOW)
ANN_WRITES = Acl("User:ann", "*", AclOperation.WRITE, Permission.ALLOW)


@pytest.mark.parametrize("few", [acl_rules.FEW_RULES, 0], ids=["few rules", "many rules"])
@pytest.mark.parametrize("seed", range(10))
def test_rules_decide_as_a_walk_over_all_of_them(
    seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_rules, "FEW_RULES", few)

    assert disagreements(seed, changes=30, questions=10) == []


def test_a_change_of_many_patterns_is_seen_at_once_and_by_what_was_remembered() -> None:
    rules = AclRules(SuperUsers())
    orders = AclPattern(TOPIC, "orders")
    beginning = AclPattern(TOPIC, "ord", PatternType.PREFIXED)
    rules.replace({orders: (ANN_READS,)})
    asked = "User:ann", "1.2.3.4", AclOperation.READ, AclResource(TOPIC, "orders")
    assert rules.is_granted(*asked)

    rules.replace({orders: (ANN_READS, ANN_WRITES), beginning: CLOSED})

    assert not rules.is_granted(*asked)
    assert not rules.is_granted_somewhere("User:ann", "1.2.3.4", AclOperation.READ, TOPIC)
    rules.replace({beginning: ()})
    assert rules.is_granted(*asked)
    assert len(rules) == 1


def test_no_name_that_a_client_thinks_of_makes_the_memory_grow() -> None:
    rules = AclRules(SuperUsers())

    for number in range(KNOWN_MAX + 10):
        name = f"{number}" + "x" * 300 * (number % 2)
        rules.is_granted("User:ann", "h", AclOperation.READ, AclResource(TOPIC, name))
    assert not rules.is_granted("User:ann", "h", AclOperation.ALTER, CLUSTER)


@pytest.mark.parametrize(
    ("pattern_type", "name", "found"),
    [
        (PatternType.ANY, None, ("*", "orders", "ord", "o")),
        (PatternType.ANY, "ord", ("ord",)),
        (PatternType.MATCH, "orders", ("*", "orders", "ord", "o")),
        (PatternType.MATCH, "out", ("*", "o")),
        (PatternType.LITERAL, "orders", ("orders",)),
        (PatternType.LITERAL, "*", ("*",)),
        (PatternType.PREFIXED, None, ("ord", "o")),
    ],
)
def test_a_filter_means_the_patterns_that_kafka_means(
    pattern_type: PatternType, name: str | None, found: tuple[str, ...]
) -> None:
    patterns = [AclPattern(TOPIC, each) for each in ("*", "orders")]
    patterns += [AclPattern(TOPIC, each, PatternType.PREFIXED) for each in ("ord", "o")]
    asked = AclFilter(TOPIC, name, pattern_type, None, None, AclOperation.ANY, Permission.ANY)

    assert tuple(each.name for each in patterns if asked.matches_pattern(each)) == found
    named = asked.named_patterns()
    assert named is None or {each for each in named if each in patterns} == {
        each for each in patterns if asked.matches_pattern(each)
    }


def test_a_filter_means_the_rules_that_have_all_it_names() -> None:
    def means(*words: object) -> bool:
        asked = AclFilter(TOPIC, None, PatternType.ANY, *words)  # type: ignore[arg-type]
        return asked.matches(ANN_READS)

    assert means(None, None, AclOperation.ANY, Permission.ANY)
    assert means("User:ann", "*", AclOperation.READ, Permission.ALLOW)
    assert not means("User:bob", None, AclOperation.ANY, Permission.ANY)
    assert not means(None, "h", AclOperation.ANY, Permission.ANY)
    assert not means(None, None, AclOperation.ALL, Permission.ANY)
    assert not means(None, None, AclOperation.ANY, Permission.DENY)
