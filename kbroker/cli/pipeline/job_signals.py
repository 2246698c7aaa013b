"""Ctrl-C and SIGTERM while a job runs: the first ends it after what it is at, the next at once.

Law: nobody sleeps for long at one go. Python hears of a signal that comes in the moment before a
sleep when the sleep is over, and who watches a command's output sends one in that very moment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Protocol

from kbroker.cli.arguments.connection import ExitCode
from kbroker.cli.shown.output import say
from kbroker.pipeline.spark_job.temporary_folder import remove_temporary_folders

_LONGEST_SLEEP_S = 0.5


class StoppableJob(Protocol):
    """What can be ended while it runs."""

    def stop(self) -> None:
        """End after what it is at."""
        ...

    def cut(self) -> None:
        """End at once."""
        ...


@contextmanager
def stopping(job: StoppableJob, piece: str = "batch") -> Iterator[list[int]]:
    """Signals stop the job; yields those that came."""
    came: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            job.stop()
            say(f"\nstopping after this {piece}; once more stops at once")
        else:
            job.cut()

    before: dict[int, Any] = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_until(when_s: float, pause: Callable[[float], bool | None] = time.sleep) -> None:
    """Wait for a time of `time.monotonic`, or until `pause`, which sleeps, returns True."""
    while (left_s := when_s - time.monotonic()) > 0:
        if pause(min(left_s, _LONGEST_SLEEP_S)):
            return


def exit_code(stopped_by: Sequence[int], *, is_at_end: bool) -> ExitCode:
    """The code for a job that came to its end, or was stopped before."""
    if is_at_end or not stopped_by:
        return ExitCode.FINE
    return ExitCode.TERMINATED if stopped_by[0] == signal.SIGTERM else ExitCode.INTERRUPTED


def leave_by(stopped_by: Sequence[int]) -> NoReturn:
    """End the process as the first signal wants it, though tasks still work."""
    by_term = stopped_by[:1] == [signal.SIGTERM]
    leave(ExitCode.TERMINATED if by_term else ExitCode.INTERRUPTED)


def leave(code: int) -> NoReturn:
    """End the process while Spark still works: it ends when its driver is gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    remove_temporary_folders()
    os._exit(code)
