"""Files that end with a hole: an index has its full size while its segment is active, and its disk
holds only what was written.
"""

from __future__ import annotations

import os
from errno import EINVAL, ENOTSUP, ENXIO


def written_end(fd: int) -> int:
    """Where the hole at the end of a file begins, its size where it has none (exclusive). The disk
    may tell of blocks alone, so zeros may come before it. Raises OSError.
    """
    size = os.fstat(fd).st_size
    end = 0
    try:
        while end < size:
            end = os.lseek(fd, os.lseek(fd, end, os.SEEK_DATA), os.SEEK_HOLE)
    except OSError as error:
        if error.errno in {EINVAL, ENOTSUP}:  # a disk that knows of no holes
            return size
        if error.errno != ENXIO:  # nothing but the hole follows
            raise
    return min(end, size)
