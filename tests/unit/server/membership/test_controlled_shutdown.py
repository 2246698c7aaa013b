"""How long a stop waits for the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.server.membership.controlled_shutdown import SILENCE_MS, ControlledShutdown
from kbroker.zk.tree import TreeUnavailableError
from tests.fakes.trees.memory_tree_files import FixedClock

LEFT = [TopicPartition("t", 0)]


class Stop:
    """A stop whose controller answers from a list; the last answer goes on for ever."""

    def __init__(self, *answers: Sequence[TopicPartition] | Exception, **settings: str) -> None:
        self.answers = list(answers)
        self.slept_s: list[float] = []
        self.asked = 0
        self.clock = FixedClock()
        names = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = KafkaConfig.for_profile("dev", names).server

    def run(self, *, is_with_all: bool = False) -> bool:
        shutdown = ControlledShutdown(self.config, self._ask, self.clock, self._sleep)
        return asyncio.run(shutdown.run(is_with_all=is_with_all))

    async def _ask(self) -> Sequence[TopicPartition]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _sleep(self, delay_s: float) -> None:
        self.slept_s.append(delay_s)
        self.clock.value_ms += int(delay_s * 1000)


def test_one_answer_is_enough_where_nothing_is_left() -> None:
    stop = Stop([])

    assert stop.run()
    assert (stop.asked, stop.slept_s) == (1, [])


def test_what_could_not_be_moved_is_asked_for_again_after_the_backoff() -> None:
    stop = Stop(LEFT, [], controlled_shutdown_retry_backoff_ms="700")

    assert stop.run()
    assert (stop.asked, stop.slept_s) == (2, [0.7])


def test_after_the_last_attempt_the_broker_goes_with_what_it_leads() -> None:
    stop = Stop(LEFT, controlled_shutdown_max_retries="2")

    assert not stop.run()
    assert (stop.asked, stop.slept_s) == (2, [5.0])


def test_where_all_brokers_stop_nobody_waits_for_what_none_of_them_can_lead(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop = Stop(LEFT, [])

    assert not stop.run(is_with_all=True)
    assert (stop.asked, stop.slept_s) == (1, [])
    assert caplog.records == []


def test_a_controller_that_is_just_being_replaced_is_waited_for() -> None:
    stop = Stop(KafkaError(ErrorCode.NOT_CONTROLLER), ConnectionRefusedError(), [])

    assert stop.run()
    assert stop.asked == 3


def test_a_controller_that_is_gone_holds_the_stop_up_for_seconds_only() -> None:
    stop = Stop(ConnectionRefusedError())

    assert not stop.run()
    assert 0 < sum(stop.slept_s) * 1000 <= SILENCE_MS


def test_without_the_tree_nobody_is_waited_for() -> None:
    stop = Stop(TreeUnavailableError("/controller"))

    assert not stop.run()
    assert (stop.asked, stop.slept_s) == (1, [])


def test_nothing_is_asked_where_the_operator_does_not_want_it() -> None:
    stop = Stop([], controlled_shutdown_enable="false")

    assert not stop.run()
    assert stop.asked == 0
