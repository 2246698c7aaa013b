"""Checksums of the batches of a piece."""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import Final

import numpy as np
from fastcrc.crc32 import iscsi as crc32c

from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, Bools
from kbroker.pipeline.logdir.decode.segment_pieces import Piece
from kbroker.record.record_batch import ATTRIBUTES_POSITION

_OLD_CRC_COVERS_FROM: Final = 16


def crcs_match(headers: BatchHeaders, piece: Piece) -> Bools:
    """Whether the checksum of each batch is right: CRC-32C, or CRC-32 of the old formats."""
    view = memoryview(piece.buffer)
    bounds = piece.bounds
    if piece.is_old:
        found = [
            zlib.crc32(view[start + _OLD_CRC_COVERS_FROM : end])
            if is_old
            else crc32c(view[start + ATTRIBUTES_POSITION : end])
            for (start, end), is_old in zip(pairwise(bounds), headers.is_old, strict=True)
        ]
    else:
        found = [crc32c(view[start + ATTRIBUTES_POSITION : end]) for start, end in pairwise(bounds)]
    right: Bools = np.array(found, np.int64) == headers.field("crc")
    return right
