"""LogDirEvents: makes the controller ask which of a broker's replicas it can use (KIP-112).

Law: a node under /log_dir_event_notification is written for a failed data directory, and for logs
that could not be made or deleted but perhaps can be now (a disk was full). The controller then
sends LeaderAndIsr for all replicas of this broker, learns from the answers, and goes on with
pending deletions. A node that cannot be written is written later. Kafka writes such a node for
failures only: there, a topic created on a full disk has no leader until the broker restarts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.tree import TreeError
from kbroker.zk.zk_utils import ZkUtils

_log = logging.getLogger(__name__)

WRITE_BACKOFF_S = 1.0
UNMADE_RETRY_S = 5.0  # between two attempts to make or delete a log


class LogDirEvents:
    """The events of one broker. Owned by the event loop."""

    def __init__(self, zk: ZkUtils, broker_id: int, retry_unmade: Callable[[], bool]) -> None:
        """`retry_unmade` lets logs be tried again; True if there are any."""
        self._notifications = ZkNotifications(zk)
        self._broker_id = broker_id
        self._retry_unmade = retry_unmade
        self._is_due = False
        self._is_stopped = False
        self._writer: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None

    def report(self) -> None:
        """Make the controller ask, because a data directory has failed."""
        if self._is_stopped:  # closing the logs at the broker's end has found a failing disk
            return
        self._is_due = True
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name="log directory event")

    def log_unmade(self) -> None:
        """Have a log that could not be made or deleted tried again until it can be."""
        if self._retry is None and not self._is_stopped:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(UNMADE_RETRY_S, self._try_again)

    async def stop(self) -> None:
        """Return once nothing is being written."""
        self._is_stopped = True
        if self._retry is not None:
            self._retry.cancel()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    def _try_again(self) -> None:
        self._retry = None
        if self._retry_unmade():
            self.report()
            self.log_unmade()

    async def _write(self) -> None:
        while self._is_due:
            self._is_due = False
            try:
                await self._notifications.propagate_log_dir_event(self._broker_id)
            except TreeError as error:
                _log.debug("log directory event not written: %r", error)
                self._is_due = True
                await asyncio.sleep(WRITE_BACKOFF_S)
