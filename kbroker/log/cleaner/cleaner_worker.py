"""Carries out cleaning jobs: on a thread of the broker, or as a process of its own.

The process reads jobs from its input and writes what happens to its output, as frames of a 4-byte
length and a pickle; both ends are this program. It ends with its input, and stops working when its
parent has died: a broker that is restarted must be alone with its files.

Law: every job gets exactly one end, because the broker keeps the log's files in place until it
hears one.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable
from struct import Struct
from typing import BinaryIO

from kbroker.log.cleaner.cleaner import CannotCleanError, Cleaner
from kbroker.log.cleaner.cleaning_job import (
    CleanedGroup,
    CleaningEnd,
    CleaningFailed,
    CleaningJob,
)
from kbroker.log.cleaner.pacer import CleaningAborted, Pacer
from kbroker.log.disk.file_system import FileSystem, RealFileSystem, StorageError

FRAME_LENGTH = Struct(">i")
_NICENESS = 19


def run_job(
    job: CleaningJob,
    file_system: FileSystem,
    report: Callable[[CleanedGroup], None],
    pause: Callable[[float], None],
    is_stopped: Callable[[], bool],
) -> CleaningEnd:
    """Clean; how it ended. Raises CleaningAborted."""
    pacer = Pacer(job.limits.bytes_per_s, time.monotonic, pause, is_stopped)
    begun_s = time.monotonic()
    try:
        done = Cleaner(file_system, job, pacer, report).clean()
    except CannotCleanError as error:
        return CleaningFailed(reason=str(error))
    except StorageError as error:
        return CleaningFailed(
            reason=str(error), path=error.path, operation=error.operation, errno=error.errno
        )
    return done._replace(elapsed_s=time.monotonic() - begun_s)


def encode_frame(value: object) -> bytes:
    """A value as it goes through a pipe."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return FRAME_LENGTH.pack(len(data)) + data


def decode_frame(data: bytes) -> object:
    """Return the object that was given to `encode_frame`, from its bytes after the length."""
    return pickle.loads(data)  # noqa: S301 - it comes from this program


def main() -> None:
    """The process: jobs in, groups and ends out."""
    be_polite()
    parent = os.getppid()
    source, target = sys.stdin.buffer, sys.stdout.buffer

    def send(value: object) -> None:
        target.write(encode_frame(value))
        target.flush()

    while True:
        job = _next_job(source)
        if job is None:
            return
        try:
            end = run_job(job, RealFileSystem(), send, time.sleep, lambda: os.getppid() != parent)
            send(end)
        except (CleaningAborted, BrokenPipeError):
            return


def be_polite() -> None:
    """Take only the processor time that nobody else wants."""
    os.nice(_NICENESS)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _next_job(source: BinaryIO) -> CleaningJob | None:
    length = source.read(FRAME_LENGTH.size)
    if len(length) < FRAME_LENGTH.size:
        return None
    data = source.read(FRAME_LENGTH.unpack(length)[0])
    job = decode_frame(data)
    assert isinstance(job, CleaningJob), job
    return job
