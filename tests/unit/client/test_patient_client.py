"""A broker that has just died is not asked again and again, and no command fails by chance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, NodeNotReadyError

from kbroker.client.patient_client import ATTEMPTS, PatientClient

REFUSED = KafkaConnectionError("111 ECONNREFUSED")


class Client:
    """Answers with what it was given, one after the other; errors are raised."""

    def __init__(self, *answers: Any, manager: Manager | None = None) -> None:
        self._answers = list(answers)
        self._manager = manager
        self.calls: list[tuple[str, bool]] = []

    def describe(self, topic: str, *, all_of_it: bool) -> Any:
        self.calls.append((topic, all_of_it))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def ask(client: Client) -> Any:
    return PatientClient(client, sleep=lambda _: None).describe("t", all_of_it=True)


def test_another_broker_is_asked_where_one_refuses_the_connection() -> None:
    client = Client(REFUSED, REFUSED, "all of it")

    assert ask(client) == "all of it"
    assert client.calls == [("t", True)] * 3


def test_a_broker_that_the_library_leaves_alone_for_a_while_is_asked_again() -> None:
    client = Client(NodeNotReadyError(0), "all of it")

    assert ask(client) == "all of it"


def test_what_may_have_been_sent_is_not_sent_again() -> None:
    client = Client(KafkaConnectionError("Connection lost"), "all of it")

    with pytest.raises(KafkaConnectionError, match="lost"):
        ask(client)


def test_where_all_refuse_the_call_ends() -> None:
    client = Client(*[REFUSED] * (ATTEMPTS + 1))

    with pytest.raises(KafkaConnectionError, match="ECONNREFUSED"):
        ask(client)
    assert len(client.calls) == ATTEMPTS


class Manager:
    """What sends requests of the client library; runs coroutines at once."""

    def __init__(self, *answers: Any, manager: Manager | None = None) -> None:
        self._answers = list(answers)
        self._manager = manager
        self.asked: list[tuple[Any, int]] = []

    async def send(self, request: Any, *, node_id: int) -> Any:
        self.asked.append((request, node_id))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, ask: Any) -> Any:
        return asyncio.run(ask())


def test_a_request_goes_to_the_broker_that_is_named_until_it_is_taken() -> None:
    manager = Manager(REFUSED, "answer")

    answer = PatientClient(Client(manager=manager), sleep=lambda _: None).send("request", 3)

    assert (answer, manager.asked) == ("answer", [("request", 3)] * 2)
