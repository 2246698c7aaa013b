"""The follower's side of an incremental fetch session (KIP-227): what a request has to name, and
what an answer means for the next one.

Pure. Law: a partition is named to the leader once, and again when its position has changed; if it
is in doubt what the leader knows, everything is named again.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.errors import ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
_EPOCH_MAX = 2**31 - 1
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class SessionStep(NamedTuple):
    """Session id and epoch of a request; a full one names all partitions."""

    session_id: int
    epoch: int

    @property
    def is_full(self) -> bool:
        return self.epoch == INITIAL_EPOCH


class FetchSessionHandler:
    """The session of one follower with one leader."""

    def __init__(self) -> None:
        self.next = SessionStep(NO_SESSION, INITIAL_EPOCH)

    def on_answer(self, error_code: int, session_id: int) -> bool:
        """Take note of an answer; False if it has no partitions."""
        if error_code:
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.next = SessionStep(NO_SESSION, INITIAL_EPOCH)
            else:
                self.on_failure()
            return False
        if session_id == NO_SESSION:  # the leader has no room for one
            self.next = SessionStep(NO_SESSION, INITIAL_EPOCH)
        else:
            epoch = self.next.epoch
            self.next = SessionStep(session_id, 1 if epoch == _EPOCH_MAX else epoch + 1)
        return True

    def on_failure(self) -> None:
        """Replace the session with another: no answer came, or one that does not fit."""
        self.next = SessionStep(self.next.session_id, INITIAL_EPOCH)


def is_session_error(error_code: int) -> bool:
    """Whether an answer says that only the session is wrong, so that one can ask again at once."""
    return error_code in _SESSION_ERRORS
