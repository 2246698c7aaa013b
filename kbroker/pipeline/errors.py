"""What ends a job: one sentence for a person, and the exit code of the contract."""

from __future__ import annotations

from kbroker.client.exit_code import ExitCode
from kbroker.errors import ExplainedError, Trouble

__all__ = ["ExitCode", "PipelineError"]


class PipelineError(ExplainedError):
    """The job cannot go on; the message says what happened, with which value, and what to do."""

    def __init__(
        self,
        sentence: str,
        code: ExitCode = ExitCode.ITEM_FAILED,
        trouble: Trouble | None = None,
    ) -> None:
        super().__init__(sentence, trouble)
        self.sentence = sentence
        self.code = code
