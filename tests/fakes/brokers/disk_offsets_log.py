"""A partition of __consumer_offsets on the disk, for `GroupBroker`."""

from __future__ import annotations

from typing import Any

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from tests.fakes.logs.log_maker import NOW_MS
from tests.fakes.logs.verified_batches import verified


class DiskOffsetsLog:
    """A log with the `append` that the broker's replicas want; refuses `refusals` reads first, as
    where no descriptor is left.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.refusals = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self, *arguments: Any) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no descriptor is left")
        return self._log.read(*arguments)

    def append(self, batch: memoryview) -> int:
        data = verified(self._log, bytearray(batch))
        info = self._log.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
        return info.first_offset

    def confirm(self) -> None:
        """The replicas have it all."""
        self._log.update_high_watermark(self._log.log_end_offset)
