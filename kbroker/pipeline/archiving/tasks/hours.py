"""The hour of a record's time, which is its folder. Hours are those of UTC, by the record's own
time, so that a late record joins the hour it belongs to.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kbroker.pipeline.archiving.manifests.manifest import NO_HOUR

NO_HOUR_INDEX: Final = -1

_HOUR_US = 3_600_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOURS_OF_CALENDAR = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).days * 24 + 24


def hour_indexes(timestamps: pa.Array) -> np.ndarray[Any, Any]:
    """Return hours since 1970 of timestamps in microseconds; NO_HOUR_INDEX if there is none."""
    times_us = timestamps.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    hours = times_us // _HOUR_US
    return np.where((hours >= 0) & (hours < _HOURS_OF_CALENDAR), hours, NO_HOUR_INDEX)


def hour_name(index: int) -> str:
    """An hour as manifests spell it: `2026-11-21T13`.

    >>> hour_name(0), hour_name(NO_HOUR_INDEX)
    ('1970-01-01T00', 'no-time')
    """
    if index == NO_HOUR_INDEX:
        return NO_HOUR
    return (_EPOCH + timedelta(hours=index)).strftime("%Y-%m-%dT%H")
