"""ControlledShutdown: has the controller move leaderships away before a broker stops (KIP-49).

Law: a stop waits for the controller while it makes progress, but only a few seconds for one that
gives no answer, because a stop must end: the broker then leaves as if it had been killed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from kbroker.clock import Clock
from kbroker.config.server_config import ServerConfig
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.zk.tree import TreeError, TreeUnavailableError

_log = logging.getLogger(__name__)

SILENCE_MS = 4_000.0  # the controller may be gone for this long
RETRY_BACKOFF_S = 0.2  # between two attempts to find it

# Asks the controller, whichever broker that is; returns the partitions it could not move. Raises
# OSError, TimeoutError, KafkaError or TreeError if there is no answer.
Ask = Callable[[], Awaitable[Sequence[TopicPartition]]]
Sleep = Callable[[float], Awaitable[None]]


class ControlledShutdown:
    """The attempts of one stop. Owned by the event loop."""

    def __init__(
        self, config: ServerConfig, ask: Ask, clock: Clock, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._config = config
        self._ask = ask
        self._clock = clock
        self._sleep = sleep

    async def run(self, *, is_with_all: bool = False) -> bool:
        """Return whether this broker leads nothing that another could lead. `is_with_all`: all
        brokers stop, so asking again would move nothing more.
        """
        if not self._config.controlled_shutdown_enable:
            return False
        remaining: Sequence[TopicPartition] = ()
        attempts = 1 if is_with_all else self._config.controlled_shutdown_max_retries
        for attempt in range(attempts):
            if attempt:
                await self._sleep(self._config.controlled_shutdown_retry_backoff_ms / 1000)
            answer = await self._answer()
            if answer is None:
                return False
            if not answer:
                return True
            remaining = answer
            _log.info("the controller could not move %d leaderships yet", len(remaining))
        if is_with_all:
            return False
        led = ", ".join(map(str, remaining))
        _log.warning("stopping while still leading %d partitions: %.500s", len(remaining), led)
        return False

    async def _answer(self) -> Sequence[TopicPartition] | None:
        """The controller's answer, None if there was none."""
        end_ms = self._clock.monotonic_ms() + SILENCE_MS
        while True:
            try:
                async with asyncio.timeout(max(end_ms - self._clock.monotonic_ms(), 0) / 1000):
                    return await self._ask()
            except (OSError, TimeoutError, KafkaError, TreeError) as error:
                is_over = self._clock.monotonic_ms() + RETRY_BACKOFF_S * 1000 >= end_ms
                # Without the tree no broker can act as controller.
                if is_over or isinstance(error, TreeUnavailableError):
                    _log.warning("stopping without the controller: %r", error)
                    return None
            await self._sleep(RETRY_BACKOFF_S)
