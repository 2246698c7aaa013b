"""The error that ends a job: one sentence for a person, and the exit code of the contract."""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.client.client_error import EndingError
from kbroker.client.exit_code import ExitCode
from kbroker.near_names import did_you_mean

__all__ = ["ExitCode", "OptionsError", "PipelineError", "no_such_topics", "with_hints"]


class PipelineError(EndingError):
    """The job cannot go on; the message says what happened, with which value, and what to do."""


class OptionsError(PipelineError):
    """The options of a job do not go together, or are not enough; it names them."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, ExitCode.USAGE)


def no_such_topics(
    places: Iterable[str], missing: Iterable[str], there: Iterable[str]
) -> PipelineError:
    """Return the error of named topics that are in none of the places; `there`: those that are, for
    hints.
    """
    return PipelineError(f"no such topic in {', '.join(places)}: {with_hints(missing, there)}")


def with_hints(missing: Iterable[str], there: Iterable[str]) -> str:
    """Name the missing ones, each with existing ones that look like it."""
    known = sorted(there)
    return "; ".join(f"{name}{did_you_mean(name, known)}" for name in missing)
