"""Coordinators of transactions, as leaders of partitions ask them."""

from __future__ import annotations

import asyncio

from kbroker.coordinator.transaction.participation import Codes, Participation
from kbroker.errors import ErrorCode
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.model import TopicPartition


class ConsentingCoordinator:
    """Says `code`, or `codes`, at once; while it `is_away`, when `answer` is called."""

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.codes: Codes = {}
        self.asked: list[Participation] = []
        self.then: list[ErrorCode] = []
        self.is_away = False
        self.enabled = True
        self.waiting: list[asyncio.Future[Codes]] = []

    def is_enabled(self) -> bool:
        return self.enabled

    def verify(self, asked: Participation) -> Codes | asyncio.Future[Codes]:
        self.asked.append(asked)
        if not self.is_away:
            return asked.all_are(self.code) | self.codes
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    async def add(self, asked: Participation) -> Codes:
        """As `verify`; `then` gives codes for one request each, first."""
        self.asked.append(asked)
        if self.then:
            return asked.all_are(self.then.pop(0))
        if not self.is_away:
            return asked.all_are(self.code) | self.codes
        self.waiting.append(asyncio.get_running_loop().create_future())
        return await self.waiting[-1]

    def answer(self, index: int = 0, code: ErrorCode = ErrorCode.NONE) -> None:
        self.waiting[index].set_result(self.asked[index].all_are(code))


class LedEverywhere:
    """Partitions with producers, and no log; `error` is raised for all."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._found: dict[TopicPartition, LedEverywhere] = {}
        self.hosted = self
        self.log = self
        self.producer_state = ProducerStateManager(TopicPartition("any", 0))

    def get(self, topic_partition: TopicPartition) -> LedEverywhere:
        return self._found.setdefault(topic_partition, LedEverywhere())

    def check_leads(self) -> None:
        if self.error is not None:
            raise self.error
