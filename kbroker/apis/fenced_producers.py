"""The code for a producer when another has taken its transactional id (KIP-588).

Law: old versions do not know PRODUCER_FENCED; their clients end at INVALID_PRODUCER_EPOCH instead.
"""

from __future__ import annotations

from kbroker.errors import ErrorCode

FIRST_TRANSACTION_VERSION = 2  # of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn


def as_known(code: ErrorCode, version: int, first_version: int) -> ErrorCode:
    """The code as a version says it; `first_version` is the first that knows PRODUCER_FENCED.

    >>> as_known(ErrorCode.PRODUCER_FENCED, 3, 4).name
    'INVALID_PRODUCER_EPOCH'
    """
    if code is ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
