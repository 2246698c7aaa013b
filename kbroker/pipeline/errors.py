"""What ends a job: one sentence for a person, and the exit code of the contract."""

from __future__ import annotations

from kbroker.client.exit_code import ExitCode

__all__ = ["ExitCode", "PipelineError"]


class PipelineError(Exception):
    """The job cannot go on; the message says what happened, with which value, and what to do."""

    def __init__(self, sentence: str, code: ExitCode = ExitCode.ITEM_FAILED) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
