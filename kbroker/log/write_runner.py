"""Who does the slow part of periodic work: files written whole, fsyncs, removals of many files.
They may take longer than a client waits.

What has to be written is gathered by the owner of the logs; a WriteRunner carries it out, here or
on a worker thread, and tells the owner afterwards.

Law: `done` is told once of everything that was asked for, whatever came of it. Work that ends in an
error of the program counts as a failed sync: nobody knows what of it is on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kbroker.log.file_system import SYNC, StorageError

Done = Callable[[StorageError | None], None]

WriteRunner = Callable[[Callable[[], None], Done], None]
"""Called with the work, and with what is told its error, or None, in the owner's thread."""

_log = logging.getLogger(__name__)


def run_now(work: Callable[[], None], done: Done) -> None:
    """A WriteRunner that does the work before it returns."""
    done(outcome(work))


def outcome(work: Callable[[], None]) -> StorageError | None:
    """Do the work, on whatever thread; what came of it."""
    try:
        work()
    except StorageError as error:
        return error
    except Exception as error:
        return unexpected(error)
    return None


def unexpected(error: BaseException | None) -> StorageError:
    """What to tell of work that ended in an error of the program."""
    _log.error("A write ended unexpectedly", exc_info=error)
    return StorageError("", SYNC, 0, f"it ended unexpectedly: {error!r}")
