"""The offsets of a log by its batch headers, as columns: no batch has to be opened."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from kbroker.record.compression import NONE
from kbroker.record.record_batch import CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT, BatchHeader

Int64s = npt.NDArray[np.int64]

CONTROL: Final = 1
TRANSACTIONAL: Final = 2
OPAQUE: Final = 4  # a compressed message of an old format: its first offset and count are unknown


@dataclass(frozen=True, slots=True)
class LogBatches:
    """One entry for each batch in every array, by rising offset. Last offsets inclusive."""

    base: Int64s
    last: Int64s
    count: Int64s
    flags: Int64s


class BatchGatherer:
    """Gathers the headers of one log."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def batch(self, header: BatchHeader) -> None:
        """Take in the header of an intact batch."""
        flags = 0
        if header.attributes & CONTROL_BIT and header.magic == MAGIC:
            flags |= CONTROL
        if header.attributes & TRANSACTIONAL_BIT:
            flags |= TRANSACTIONAL
        if header.magic < MAGIC and header.compression != NONE:
            flags |= OPAQUE
        self._numbers.extend((header.base_offset, header.last_offset, header.record_count, flags))

    def batches(self) -> LogBatches:
        """Return what was gathered so far."""
        table = np.frombuffer(self._numbers, np.int64).reshape(-1, 4)
        return LogBatches(*(np.ascontiguousarray(table[:, column]) for column in range(4)))
