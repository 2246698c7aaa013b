"""Refusals of a disk: one sentence with what to do, or nothing if a log can be read without the
file.
"""

from __future__ import annotations

from errno import EIO, ENOENT

from kbroker.inspection.disk_advice import advice_on
from kbroker.log.disk.file_system import StorageError
from kbroker.pipeline.errors import PipelineError

_FAILING = "the disk is failing: save what can still be read, or read another replica"


def refused_by_disk(error: StorageError) -> PipelineError:
    """Return the error that ends the query."""
    advice = advice_on(error, _FAILING if error.errno == EIO else "")
    return PipelineError(f"cannot {error}" + (f"; {advice}" if advice else ""))


def is_refusal(error: StorageError) -> bool:
    """False if the file is gone, or if trying again may help."""
    return error.errno != ENOENT and not error.is_passing
