"""When the fetch of a follower is answered, once there is something to send.

Law: owned by the event loop. An answer leaves at the next turn of the loop, as requests that came
together are appended in one; it waits longer as its pace says (see `fetch_pace`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.reads.fetch_pace import HOLD_MS, FetchPace
from kbroker.replication.reads.fetch_params import FetchPartition
from kbroker.replication.waiting.delayed_operation_purgatory import DelayedOperation
from kbroker.replication.waiting.purgatories import Purgatories

PACED_PARTITIONS_MAX = 8
"""Partitions of a fetch that waits for more: of many, several have records each time."""


class FollowerTurn:
    """The turn of one fetch; `asked` are its partitions, to which more may come."""

    __slots__ = ("_asked", "_hosted", "_pace", "_waited_from", "_waiting")

    def __init__(
        self,
        asked: Sequence[FetchPartition],
        pace: FetchPace | None,
        hosted: HostedPartitions,
        waiting: Purgatories,
    ) -> None:
        self._asked = asked
        self._pace = pace if len(asked) <= PACED_PARTITIONS_MAX else None
        self._hosted = hosted
        self._waiting = waiting
        self._waited_from: int | None = None  # requests, None: it does not wait for more

    @property
    def waits_for_more(self) -> bool:
        return self._waited_from is not None

    def begin_wait(self, size_bytes: int) -> bool:
        """Whether to wait for more than these bytes, from now on."""
        pace = self._pace
        if pace is None or not pace.waits(requests := self._requests(), size_bytes):
            return False
        self._waited_from = requests
        return True

    def end_in_time(self, operation: DelayedOperation) -> None:
        """Complete what waits for more when its time is over."""
        self._waiting.complete_later(operation, HOLD_MS)

    def end_soon(self, operation: DelayedOperation) -> None:
        """Complete it in the next turn of the loop."""
        self._waiting.complete_later(operation, 0)

    def has_enough(self) -> bool:
        """Whether what it waits for has come."""
        return self._pace is None or self._pace.is_enough(self._requests())

    def answered(self) -> None:
        """Note that all that is there now is sent."""
        if self._pace is not None:
            self._pace.answered(self._requests(), self._waited_from)
            for asked in self._asked:
                partition = self._hosted.find(asked.topic_partition)
                if partition is not None:
                    asked.sent_appends = partition.log.offsets.appends

    def _requests(self) -> int:
        """The appends since the last answer; of those that were never counted, one."""
        count = 0
        for asked in self._asked:
            partition = self._hosted.find(asked.topic_partition)
            if partition is not None and asked.sent_appends >= 0:
                count += max(0, partition.log.offsets.appends - asked.sent_appends)
        return count or 1
