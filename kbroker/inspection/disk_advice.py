"""Advice for when the disk refuses to read a file: it may be broken, or only forbidden to this
user.
"""

from __future__ import annotations

from errno import EACCES, EPERM

from kbroker.log.disk.file_system import StorageError

WHO_MAY_READ = "run this as the user of the broker, or let this one read it"

OFFLINE = "a broker takes the whole data directory offline when it meets this"


def is_forbidden(error: Exception) -> bool:
    """True if this user may not read the file, which may be fine."""
    return isinstance(error, StorageError | OSError) and error.errno in (EACCES, EPERM)


def advice_on(error: Exception, otherwise: str) -> str:
    """Return what to do about a file that could not be read; `otherwise` for damage in the file
    itself.
    """
    return WHO_MAY_READ if is_forbidden(error) else otherwise
