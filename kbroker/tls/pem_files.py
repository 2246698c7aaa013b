"""Files of PEM: one for a text that OpenSSL is to read, and whether one has been replaced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

FileStamp = tuple[int, ...]


def file_stamp(path: str) -> FileStamp:
    """Return what differs once a file is another, or has other contents; empty if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ino, status.st_size


@contextmanager
def private_file(text: str) -> Iterator[str]:
    """Yield the path of a file with the text, as OpenSSL reads nothing else: one in memory, or one
    that only this user can read, for this moment.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("kbroker-key"), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    descriptor, path = tempfile.mkstemp(prefix="kbroker-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
