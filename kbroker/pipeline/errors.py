"""What ends a job: one sentence for a person, and the exit code of the contract."""

from __future__ import annotations

from kbroker.client.client_error import EndingError
from kbroker.client.exit_code import ExitCode

__all__ = ["ExitCode", "PipelineError"]


class PipelineError(EndingError):
    """The job cannot go on; the message says what happened, with which value, and what to do."""
