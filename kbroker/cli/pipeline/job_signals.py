"""Ctrl-C and SIGTERM while a job runs: the first ends it after its batch, the next at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from kbroker.cli.arguments.connection import ExitCode
from kbroker.cli.shown.output import say
from kbroker.pipeline.spark_job.job_events import StoppableJob
from kbroker.pipeline.spark_job.temporary_folder import remove_temporary_folders


@contextmanager
def stopping(job: StoppableJob, piece: str) -> Iterator[list[int]]:
    """Let signals stop the job; yields those that came."""
    came: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            job.stop()
            say(f"\nstopping after this {piece}; once more stops at once")
        elif not job.cut():
            leave(exit_code(came, is_at_end=False))

    before: dict[int, Any] = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(stopped_by: Sequence[int], *, is_at_end: bool) -> ExitCode:
    """The code for a job that came to its end, or that these signals stopped."""
    if is_at_end or not stopped_by:
        return ExitCode.FINE
    return ExitCode.TERMINATED if stopped_by[0] == signal.SIGTERM else ExitCode.INTERRUPTED


def leave(code: int) -> NoReturn:
    """End the process while tasks still work: Spark ends when its driver is gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    remove_temporary_folders()
    os._exit(code)
