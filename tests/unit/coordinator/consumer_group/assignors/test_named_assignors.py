"""Assignors by name, and those of operators."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from kbroker.coordinator.consumer_group.assignors.assignor import (
    AssignorError,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    Topics,
)
from kbroker.coordinator.consumer_group.assignors.loading import assignors_named
from kbroker.errors import ConfigError

A, B = UUID(int=1), UUID(int=2)
PACKAGE = "org.apache.kafka.coordinator.group.assignor"
MEMBERS = {one: MemberSpec(None, None, frozenset({A}), {}) for one in ("m1", "m2")}
SPEC = GroupSpec(MEMBERS, SubscriptionType.HOMOGENEOUS)
TOPICS = Topics({A: 3, B: 1})


class FirstTakesAll:
    """All partitions for the first member."""

    name = "first"

    def assign(self, spec: GroupSpec, topics: Topics) -> object:
        first = min(spec.members)
        return {first: {A: list(range(topics.partition_count(A)))}}


class Raising(FirstTakesAll):
    def assign(self, spec: GroupSpec, topics: Topics) -> object:
        raise KeyError("x")


class Leaving(FirstTakesAll):
    def assign(self, spec: GroupSpec, topics: Topics) -> object:
        sys.exit(3)


class Refusing(FirstTakesAll):
    def assign(self, spec: GroupSpec, topics: Topics) -> object:
        raise AssignorError("too few members")


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("own_assignors")
    for each in (FirstTakesAll, Raising, Leaving, Refusing):
        setattr(module, each.__name__, each)
    monkeypatch.setitem(sys.modules, "own_assignors", module)
    return module


@pytest.mark.parametrize("names", [
    ("uniform", "range"),
    (f"{PACKAGE}.UniformAssignor", f"{PACKAGE}.RangeAssignor"),
])  # fmt: skip
def test_kafkas_assignors_have_two_names_each_and_the_first_is_the_default(
    names: tuple[str, str],
) -> None:
    found = assignors_named(names)

    assert found.default.name == "uniform"
    assert found.default.assign(SPEC, TOPICS).keys() == MEMBERS.keys()
    assert found.get("uniform") is found.default
    assert found.get("sticky") is None
    assert found.names == "uniform, range"


def test_one_of_the_operators_is_taken_by_module_and_name(mine: ModuleType) -> None:
    found = assignors_named(["own_assignors:FirstTakesAll", "range"])

    assert found.default.name == "first"
    assert found.default.assign(SPEC, TOPICS) == {"m1": {A: frozenset({0, 1, 2})}, "m2": {}}


@pytest.mark.parametrize(("names", "sentence"), [
    ([], "group.consumer.assignors names no assignor"),
    (["range", f"{PACKAGE}.RangeAssignor"], "two assignors with the name range"),
    ([f"{PACKAGE}.SimpleAssignor"], "Java classes are not served: name a Python function"),
    (["unifrom"], "unifrom .* it is none of uniform, range, and module:name"),
    (["own_assignors:Missing"], "own_assignors has no Missing to call"),
    (["own_assignors:nameless"], "it cannot be made: AttributeError"),
    (["own_assignors:numbered"], "its name is 5, and not a text"),
    (["own_assignors:idle"], "what it makes has no method assign"),
])  # fmt: skip
def test_what_cannot_be_taken_is_refused_with_a_sentence(
    mine: ModuleType, names: list[str], sentence: str
) -> None:
    mine.nameless = object  # type: ignore[attr-defined]
    mine.numbered = type("Numbered", (), {"name": 5})  # type: ignore[attr-defined]
    mine.idle = type("Idle", (), {"name": "idle"})  # type: ignore[attr-defined]

    with pytest.raises(ConfigError, match=sentence):
        assignors_named(names)


def test_an_own_one_can_change_nothing_of_the_group(
    monkeypatch: pytest.MonkeyPatch, mine: ModuleType
) -> None:
    def assign(_self: object, spec: GroupSpec, _topics: Topics) -> object:
        spec.members["m1"].assigned.clear()  # type: ignore[attr-defined]
        return {}

    monkeypatch.setattr(FirstTakesAll, "assign", assign)
    assigned = {A: frozenset({0})}
    spec = SPEC._replace(members={"m1": MemberSpec(None, None, frozenset({A}), assigned)})

    with pytest.raises(AssignorError, match="first raised AttributeError"):
        assignors_named(["own_assignors:FirstTakesAll"]).default.assign(spec, TOPICS)
    assert assigned == {A: {0}}


@pytest.mark.parametrize(("name", "sentence"), [
    ("Raising", r"first raised KeyError\('x'\)"),
    ("Leaving", r"first raised SystemExit\(3\)"),
    ("Refusing", "^too few members$"),
])  # fmt: skip
def test_what_an_own_one_raises_is_an_error_of_an_assignor(
    mine: ModuleType, name: str, sentence: str
) -> None:
    with pytest.raises(AssignorError, match=sentence):
        assignors_named([f"own_assignors:{name}"]).default.assign(SPEC, TOPICS)


@pytest.mark.parametrize(("answer", "sentence"), [
    (None, "first returned NoneType, and not a dict by member"),
    ({"m3": {}}, "first assigned to 'm3', who is not a member"),
    ({"m1": [0]}, "first gave m1 list, and not a dict by topic id"),
    ({"m1": {B: [0]}}, "gave m1 topic AAAAAAAAAAAAAAAAAAAAAg, to which it is not subscribed"),
    ({"m1": {"a": [0]}}, "gave m1 topic 'a', to which"),
    ({"m1": {A: 5}}, "gave m1 partitions of topic AAAAAAAAAAAAAAAAAAAAAQ that do not exist"),
    ({"m1": {A: [3]}}, "that do not exist"),
    ({"m1": {A: [-1]}}, "that do not exist"),
    ({"m1": {A: [True]}}, "that do not exist"),
    ({"m1": {A: [0, 1]}, "m2": {A: {1}}}, "gave partition 1 of topic .* to m1 and to m2"),
    ({"m1": {A: [0]}, "m2": {A: []}}, None),
])  # fmt: skip
def test_an_answer_that_would_do_harm_is_an_error_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, mine: ModuleType, answer: Any, sentence: str | None
) -> None:
    monkeypatch.setattr(FirstTakesAll, "assign", lambda self, spec, topics: answer)
    assignor = assignors_named(["own_assignors:FirstTakesAll"]).default

    if sentence is None:
        assert assignor.assign(SPEC, TOPICS) == {"m1": {A: frozenset({0})}, "m2": {}}
    else:
        with pytest.raises(AssignorError, match=sentence):
            assignor.assign(SPEC, TOPICS)
