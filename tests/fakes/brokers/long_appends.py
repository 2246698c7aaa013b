"""Replicas whose appends are on their way to the log for as long as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kbroker.errors import ErrorCode
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult
from tests.fakes.brokers.group_broker import OffsetsReplicas

_TURNS = 6  # of the loop, until who waited has gone on


class LongAppends:
    """Replicas that check each batch for long, and append or refuse it when told."""

    def __init__(self, replicas: OffsetsReplicas) -> None:
        self._replicas = replicas
        self._append = replicas.append_records
        self._waiting: list[Callable[[ErrorCode], None]] = []
        self.is_long = True
        replicas.append_records = self.append_records  # type: ignore[method-assign]

    def append_records(
        self, entries: list, required_acks: int, timeout_ms: int, origin: object
    ) -> AppendOutcome:
        if not self.is_long:
            return self._append(entries, required_acks, timeout_ms, origin)  # type: ignore[arg-type]
        future = asyncio.get_running_loop().create_future()

        def finish(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                outcome = self._append(entries, required_acks, timeout_ms, origin)  # type: ignore[arg-type]
                future.set_result(outcome.results)
            else:
                future.set_result([PartitionProduceResult(entries[0][0], error)])

        self._waiting.append(finish)
        return AppendOutcome([], future, future)

    @property
    def waits(self) -> bool:
        """Whether an append is on its way."""
        return bool(self._waiting)

    async def finish(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest one is appended, or refused."""
        self._waiting.pop(0)(error)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
