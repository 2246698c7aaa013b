"""Both mechanisms of a user are changed at once where the cluster takes that, else one by one: Kafka 4
refuses a user who comes twice in a request.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kbroker.client import scram_users
from kbroker.client.scram_users import altered_users, with_password, without
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

BOTH = {"ann": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}, "bo": {"SCRAM-SHA-512": 4096}}
Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


class Kafka4:
    """Its controller, which refuses what `refused` says."""

    def __init__(self) -> None:
        self.asked: list[list[tuple[str, int]]] = []
        self.refused: dict[tuple[str, int], ErrorCode] = {}

    def ask(self, _links: Any, request: AlterUserScramCredentialsRequest) -> Any:
        entries = [*request.deletions, *request.upsertions]
        self.asked.append([(entry.name, entry.mechanism) for entry in entries])
        counts = Counter(entry.name for entry in entries)
        codes = {
            entry.name: ErrorCode.DUPLICATE_RESOURCE
            if counts[entry.name] > 1
            else self.refused.get((entry.name, entry.mechanism), ErrorCode.NONE)
            for entry in entries
        }
        return AlterUserScramCredentialsResponse(
            results=[Result(user=user, error_code=code) for user, code in codes.items()]
        )


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka4:
    kafka = Kafka4()
    monkeypatch.setattr(scram_users, "ask_controller", kafka.ask)
    return kafka


def test_a_user_refused_for_coming_twice_is_changed_one_mechanism_at_a_time(kafka: Kafka4) -> None:
    links: Any = None
    assert altered_users(links, without(BOTH)) == {"ann": None, "bo": None}
    assert kafka.asked == [[("ann", 1), ("ann", 2), ("bo", 2)], [("ann", 1)], [("ann", 2)]]


def test_the_second_mechanism_is_left_once_the_first_is_refused(kafka: Kafka4) -> None:
    links: Any = None
    kafka.refused["ann", 1] = ErrorCode.UNACCEPTABLE_CREDENTIAL
    request = with_password("ann", "secret", ["SCRAM-SHA-256", "SCRAM-SHA-512"], 4096)

    (error,) = altered_users(links, request).values()

    assert error is not None
    assert error.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert kafka.asked[1:] == [[("ann", 1)]]
