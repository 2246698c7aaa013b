"""Members of a consumer group as a client library keeps them (KIP-848), over a line that loses."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

GROUP = "g"
REJOIN = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
Place = tuple[UUID, int]


@dataclass(eq=False)
class Client:
    """A process. `has` are partitions that it reads now, `told` those it shall read."""

    name: str
    instance_id: str | None
    topics: tuple[str, ...]
    member_id: str = ""
    epoch: int = 0
    has: set[Place] = field(default_factory=set)
    told: set[Place] | None = None
    says_all: bool = True  # in the next heartbeat
    last_said: set[Place] | None = None
    pending: Any = None  # the answer that it waits for
    was_lost: bool = False
    is_gone: bool = False
    answers: int = 0

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat."""
        is_joining = self.epoch == 0
        says_all = self.says_all or is_joining
        has = None
        if says_all or self.has != self.last_said:
            has = _topics(self.has)
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=20_000 if says_all else -1,
            subscribed_topic_names=list(self.topics) if says_all else None,
            topic_partitions=has,
        )

    def leaving(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat that ends the membership, for a while with -2."""
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
        )

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """An answer has come."""
        code = ErrorCode(response.error_code)
        if code in REJOIN:
            self.forget()
        elif code is not ErrorCode.NONE:
            self.says_all = True
        else:
            self.answers += 1
            assert response.member_id
            self.member_id = response.member_id
            assert response.member_epoch >= self.epoch, f"{self.name}: epoch went back"
            self.epoch = response.member_epoch
            self.says_all = False
            if response.assignment is not None:
                self.told = {
                    (topic.topic_id, index)
                    for topic in response.assignment.topic_partitions
                    for index in topic.partitions
                }

    def give_up(self) -> None:
        """Stop reading what it shall not."""
        if self.told is not None:
            self.has &= self.told

    def begin(self) -> None:
        """Read what it shall, after it has given up the rest."""
        if self.told is not None:
            self.has = set(self.told)

    def forget(self) -> None:
        """Abandon all partitions and join anew."""
        self.epoch, self.has, self.told, self.last_said = 0, set(), None, None
        self.says_all = True


def _topics(places: Iterable[Place]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(places):
        by_topic.setdefault(topic_id, []).append(index)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic.items()
    ]


class Line:
    """The way to the coordinator: requests and answers may get lost."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.loss = 0.15

    def send(self, groups: Any, client: Client, request: ConsumerGroupHeartbeatRequest) -> Any:
        """Send a heartbeat; returns what comes of it, None if the request gets lost."""
        if self._random.random() < self.loss:
            client.says_all = True
            return None
        client.last_said = set(client.has) if request.topic_partitions is not None else None
        outcome = groups.heartbeat(
            request, api_version=1, client_id=client.name, client_host="/127.0.0.1"
        )
        if inspect.isawaitable(outcome):
            return asyncio.ensure_future(outcome)
        future = asyncio.get_running_loop().create_future()
        future.set_result(outcome)
        return future

    def loses_answer(self) -> bool:
        return self._random.random() < self.loss
