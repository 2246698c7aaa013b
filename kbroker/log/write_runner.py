"""Who does the slow part of periodic work: files written whole and fsyncs, which may take longer
than a client waits.

What has to be written is gathered by the owner of the logs; a WriteRunner carries it out, here or
on a worker thread, and tells the owner afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.log.file_system import StorageError

WriteRunner = Callable[[Callable[[], None], Callable[[StorageError | None], None]], None]
"""Called with the work, and with what is told its error, or None, in the owner's thread."""


def run_now(work: Callable[[], None], done: Callable[[StorageError | None], None]) -> None:
    """A WriteRunner that does the work before it returns."""
    try:
        work()
    except StorageError as error:
        done(error)
    else:
        done(None)
