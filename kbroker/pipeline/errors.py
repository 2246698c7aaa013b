"""What ends a job: one sentence for a person, and the exit code of the contract."""

from __future__ import annotations

from errno import EACCES, EIO, EPERM

from kbroker.client.exit_code import ExitCode
from kbroker.log.file_system import StorageError

__all__ = ["ExitCode", "PipelineError", "refused_by_disk"]


class PipelineError(Exception):
    """The job cannot go on; the message says what happened, with which value, and what to do."""

    def __init__(self, sentence: str, code: ExitCode = ExitCode.ITEM_FAILED) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
