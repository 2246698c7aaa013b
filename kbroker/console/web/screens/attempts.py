"""Changes that a form asks for, as a page shows what came of them."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from kbroker.client.client_error import EndingError
from kbroker.console.topic_changes import Done
from kbroker.errors import KafkaError


async def attempted(change: Awaitable[Done]) -> Done:
    """Return what came of a change; an error of the cluster is a refusal, so that its form can be
    sent again.
    """
    try:
        return await change
    except EndingError as error:
        return Done(said=(), refused=(error.sentence,))
    except KafkaError as error:
        return Done(said=(), refused=(str(error),))


def refused(sentences: Iterable[str]) -> Done:
    """Return what comes of a form that is not filled in rightly."""
    return Done(said=(), refused=tuple(sentences))
