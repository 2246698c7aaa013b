"""Refusals of a disk: one sentence with what to do, or nothing if a log can be read without the
file.
"""

from __future__ import annotations

from errno import EACCES, EIO, ENOENT, EPERM

from kbroker.inspection.disk_advice import WHO_MAY_READ
from kbroker.log.disk.file_system import StorageError
from kbroker.pipeline.errors import PipelineError

_ADVICE = {
    EIO: "the disk is failing: save what can still be read, or read another replica",
    EACCES: WHO_MAY_READ,
    EPERM: WHO_MAY_READ,
}


def refused_by_disk(error: StorageError) -> PipelineError:
    """Return the error that ends the query."""
    advice = _ADVICE.get(error.errno)
    return PipelineError(f"cannot {error}" + (f"; {advice}" if advice else ""))


def is_refusal(error: StorageError) -> bool:
    """False if the file is gone, or if trying again may help."""
    return error.errno != ENOENT and not error.is_passing
