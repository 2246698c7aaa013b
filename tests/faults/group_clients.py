"""Members of a consumer group as a client library keeps them (KIP-848), over a line that loses and
delays.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable
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
REBALANCE_TIMEOUT_MS = 20_000
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
    rack_id: str | None = None
    assignor: str | None = None
    pattern: str = ""
    epoch: int = 0
    has: set[Place] = field(default_factory=set)
    told: set[Place] | None = None
    positions: dict[Place, int] = field(default_factory=dict)  # of what it has and has looked up
    says_all: bool = True  # in the next heartbeat
    last_said: set[Place] | None = None
    pending: Sent | None = None  # the heartbeat whose answer it waits for
    is_gone: bool = False
    is_stubborn: bool = False  # gives nothing up until it is fenced
    alive_until_ms: float = 0.0  # by the last heartbeat that was answered

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
            rack_id=self.rack_id if says_all else None,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if says_all else -1,
            subscribed_topic_names=list(self.topics) if says_all else None,
            subscribed_topic_regex=self.pattern if says_all else None,
            server_assignor=self.assignor if says_all else None,
            topic_partitions=has,
        )

    def wants(self, topic: str) -> bool:
        """Whether it subscribes to a topic."""
        return topic in self.topics or re.fullmatch(self.pattern, topic) is not None

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
            self.heard_nothing()
        else:
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
        if self.told is not None and not self.is_stubborn:
            self._keep(self.has & self.told)

    def begin(self) -> None:
        """Read what it shall, after it has given up the rest."""
        if self.told is not None:
            self._keep(self.has | self.told if self.is_stubborn else set(self.told))

    def _keep(self, places: set[Place]) -> None:
        self.has = places
        self.positions = {place: at for place, at in self.positions.items() if place in places}

    def stop(self) -> None:
        """Read nothing any more."""
        self.told = None
        self._keep(set())

    def heard_nothing(self) -> None:
        """Say all next time, and begin nothing until then: whoever said that it had not begun yet
        may have lost it by that.
        """
        self.says_all = True
        if self.told is not None:
            self.told &= self.has

    def forget(self) -> None:
        """Abandon all partitions and join anew."""
        self.stop()
        self.epoch, self.last_said, self.alive_until_ms = 0, None, 0.0
        self.says_all, self.is_stubborn = True, False


def _topics(places: Iterable[Place]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(places):
        by_topic.setdefault(topic_id, []).append(index)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic.items()
    ]


@dataclass(eq=False)
class Sent:
    """A request on its way; `answer` is there once the coordinator has answered."""

    client: Client
    epoch: int  # that the client said
    deliver: Callable[[], Any]
    answer: Any = None
    facts: Any = None  # what held at the coordinator when it came there

    @property
    def is_answered(self) -> bool:
        return self.answer is not None and self.answer.done()

    @property
    def response(self) -> Any:
        return self.answer.result()

    def arrive(self) -> None:
        """Reach the coordinator."""
        outcome = self.deliver()
        if inspect.isawaitable(outcome):
            self.answer = asyncio.ensure_future(outcome)
        else:
            self.answer = asyncio.get_running_loop().create_future()
            self.answer.set_result(outcome)


class Line:
    """The way to the coordinator: requests and answers may get lost, requests also come late."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.loss = 0.12
        self.lateness = 0.06
        self.late: list[Sent] = []

    def send(self, sent: Sent, times_as_late: int = 1) -> bool:
        """Send a request; returns false if it gets lost."""
        chance = self._random.random()
        if chance < self.loss:
            return False
        if chance > 1 - self.lateness * times_as_late:
            self.late.append(sent)
        else:
            sent.arrive()
        return True

    def let_arrive(self) -> Sent | None:
        """Let a late one arrive, whichever, as connections do not wait for each other."""
        if not self.late:
            return None
        sent = self.late.pop(self._random.randrange(len(self.late)))
        sent.arrive()
        return sent

    def loses_answer(self) -> bool:
        return self._random.random() < self.loss
