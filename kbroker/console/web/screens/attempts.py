"""Changes that a form asks for, as a page shows what came of them."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Final

from kbroker.client.client_error import EndingError
from kbroker.console.done import Done
from kbroker.errors import KafkaError

CHANGE_ERRORS: Final = (EndingError, KafkaError)
"""What a cluster may answer to a change."""


async def attempted(change: Awaitable[Done]) -> Done:
    """Return what came of a change; an error of the cluster is a refusal, so that its form can be
    sent again.
    """
    try:
        return await change
    except CHANGE_ERRORS as error:
        return Done(said=(), refused=(sentence_of(error),))


def sentence_of(error: EndingError | KafkaError) -> str:
    """Return the sentence about one of CHANGE_ERRORS."""
    return error.sentence if isinstance(error, EndingError) else str(error)


def refused(sentences: Iterable[str]) -> Done:
    """Return what comes of a form that is not filled in rightly."""
    return Done(said=(), refused=tuple(sentences))
