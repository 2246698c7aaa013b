"""Small files that settings name: certificates, keys, passwords. They are read whole, and without a
wait.
"""

from __future__ import annotations

import errno
import os
import stat


def read_small_file(path: str, most_bytes: int) -> bytes:
    """Read a file. Raises OSError, also for a larger one, and for pipes and devices, whose reading
    could take for ever: whoever may alter settings may name one.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes")
    return content
