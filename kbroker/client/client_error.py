"""What ends a command, as one sentence."""

from __future__ import annotations

from kbroker.client.exit_code import ExitCode
from kbroker.errors import ExplainedError, Trouble


class EndingError(ExplainedError):
    """One sentence for a person; `code` is the exit code of the contract."""

    def __init__(
        self,
        sentence: str,
        code: ExitCode = ExitCode.ITEM_FAILED,
        trouble: Trouble | None = None,
    ) -> None:
        super().__init__(sentence, trouble)
        self.sentence = sentence
        self.code = code


class ClientError(EndingError):
    """A cluster cannot be worked with, or refuses what was asked."""


def sentence_of(error: Exception) -> str:
    """Name and text of a client error, in one line."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return text if text.startswith(name) or name in text else f"{name}: {text}"
