"""Asking whoever is controller to move leaderships away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.peers.node_to_controller_channel import Question
from kbroker.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kbroker.protocol.schema import Message
from kbroker.server.membership.controller_questions import ControllerQuestions
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.tree import TreeUnavailableError
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock

LEFT = TopicPartition("t", 3)


class Controller:
    """This broker's own; it answers with what it could not move."""

    def __init__(self) -> None:
        self.is_active = False
        self.asked: list[tuple[int, int]] = []

    async def controlled_shutdown(self, broker_id: int, epoch: int) -> list[TopicPartition]:
        self.asked.append((broker_id, epoch))
        return [LEFT]


class Client:
    def __init__(self, answer: ControlledShutdownResponse) -> None:
        self.answer = answer
        self.requests: list[Message] = []

    async def send(
        self,
        request: Message,
        *,
        timeout_ms: float | None = None,
        highest_version: int | None = None,
    ) -> Any:
        self.requests.append(request)
        return self.answer

    def close(self) -> None:
        pass


class Way:
    """To another broker, or (`client` None) to this one, which has become controller meanwhile."""

    def __init__(self, client: Client | None) -> None:
        self.client = client

    async def ask(self, question: Question, timeout_ms: float) -> Any:
        return None if self.client is None else await question(self.client, timeout_ms)


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
def session() -> TreeSession:
    return EmbeddedTree(FixedClock()).session()


QuestionsTo = Callable[[Client | None], ControllerQuestions]


@pytest.fixture
def questions_to(controller: Controller, session: TreeSession) -> QuestionsTo:
    """Makes that of broker 1, with the client of another controller."""
    return lambda client: ControllerQuestions(
        1, lambda: 70, controller, Way(client), ZkUtils(session, FixedClock())  # type: ignore[arg-type]
    )  # fmt: skip


async def test_the_own_controller_is_called(
    questions_to: QuestionsTo, controller: Controller
) -> None:
    controller.is_active = True

    assert await questions_to(Client(ControlledShutdownResponse())).move_leaderships() == [LEFT]
    assert controller.asked == [(1, 70)]


async def test_another_controller_is_sent_the_broker_epoch(
    questions_to: QuestionsTo, controller: Controller
) -> None:
    partition = ControlledShutdownResponse.RemainingPartition(topic_name="t", partition_index=3)
    client = Client(ControlledShutdownResponse(remaining_partitions=[partition]))

    assert await questions_to(client).move_leaderships() == [LEFT]
    assert controller.asked == []
    assert client.requests == [ControlledShutdownRequest(broker_id=1, broker_epoch=70)]


async def test_a_broker_that_becomes_controller_meanwhile_asks_itself(
    questions_to: QuestionsTo, controller: Controller
) -> None:
    assert await questions_to(None).move_leaderships() == [LEFT]
    assert controller.asked == [(1, 70)]


@pytest.mark.parametrize(
    ("answered", "raised"),
    [
        # Kafka's answer of a broker that is not controller, to this request alone.
        (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.NOT_CONTROLLER),
        (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
async def test_a_refusal_is_no_answer(
    answered: ErrorCode, raised: ErrorCode, questions_to: QuestionsTo
) -> None:
    with pytest.raises(KafkaError) as error:
        await questions_to(
            Client(ControlledShutdownResponse(error_code=answered))
        ).move_leaderships()
    assert error.value.code is raised


async def test_nobody_is_asked_while_the_tree_cannot_be_reached(
    questions_to: QuestionsTo, controller: Controller, session: TreeSession
) -> None:
    controller.is_active = True
    session.suspend()

    with pytest.raises(TreeUnavailableError):
        await questions_to(None).move_leaderships()
    assert controller.asked == []
