"""Gaps: what an answer lacks, in sentences, because a broker is older, silent, or does not let this
user see it.

Law: what lacks one thing still shows the others. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.client.client_error import ClientError
from kbroker.errors import ErrorCode, KafkaError

_NOT_ALLOWED = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_MOST_SENTENCES = 20


class Gaps:
    """The sentences of one answer; more than some are counted only."""

    def __init__(self) -> None:
        self._sentences: dict[str, None] = {}
        self._more = 0

    def tell(self, sentence: str) -> None:
        """Add a sentence, once."""
        if sentence in self._sentences:
            return
        if len(self._sentences) < _MOST_SENTENCES:
            self._sentences[sentence] = None
        else:
            self._more += 1

    def around(self, what: str) -> Around:
        """Turn errors of a question into a sentence; `what` is its subject, in the plural."""
        return Around(self, what)

    def tell_silent(self, silent: Mapping[int, Exception]) -> None:
        """Add a sentence for each broker that gave no answer."""
        for broker_id, error in sorted(silent.items()):
            self.tell(f"broker {broker_id} gives no figures: {error}")

    def sentences(self) -> tuple[str, ...]:
        """Return the sentences in their order, and how many more there would be."""
        more = (f"and {self._more:,} more of the kind",) if self._more else ()
        return (*self._sentences, *more)


class Around:
    """The block of one question: an error ends it, and becomes a sentence."""

    def __init__(self, gaps: Gaps, what: str) -> None:
        self._gaps = gaps
        self._what = what

    def __enter__(self) -> None:
        """Begin the block; nothing has to be done for that."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, (KafkaError, ClientError, OSError)):
            return False
        self._gaps.tell(f"{self._what} are not known: {reason_of(error)}")
        return True


def reason_of(error: Exception) -> str:
    """Return why a broker does not say something.

    >>> reason_of(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    'the broker is too old to say it (UNSUPPORTED_VERSION)'
    """
    if not isinstance(error, KafkaError):
        return str(error)
    if error.code == ErrorCode.UNSUPPORTED_VERSION:
        return f"the broker is too old to say it ({error.reason})"
    if error.code in _NOT_ALLOWED:
        return f"this user may not see it ({error.code.name})"
    return str(error)
