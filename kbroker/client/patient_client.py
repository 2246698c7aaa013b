"""A client of a cluster in which a broker has just died.

Until the cluster has noticed, that broker is among those it names, and the client library asks any
of them: a command would fail by chance, most of all where it was to say what is wrong.

Law: only what was not sent is asked for again, since a change that was sent may have been made.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

ATTEMPTS = 8
BACKOFF_S = 0.1

# What the system says of a connection that was not opened, as in "111 ECONNREFUSED".
_NOT_CONNECTED = re.compile(r"\b\d+ E[A-Z]+$")


class PatientClient:
    """Passes calls on to a client, and repeats those that a broker did not take."""

    def __init__(self, client: Any, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return repeated(lambda: method(*args, **kwargs), self._sleep)

        return call

    def send(self, request: Any, node_id: int) -> Any:
        """The answer of one broker to a request that the client library has no method for."""
        manager = self._client._manager

        async def ask() -> Any:
            return await manager.send(request, node_id=node_id)

        return repeated(lambda: manager.run(ask), self._sleep)


def repeated(call: Callable[[], ResultT], sleep: Callable[[float], None] = time.sleep) -> ResultT:
    """The result of a call, repeated while the broker chosen for it refuses the connection."""
    from kafka.errors import KafkaConnectionError, NodeNotReadyError

    for _ in range(ATTEMPTS - 1):
        try:
            return call()
        except NodeNotReadyError:
            pass  # the library has just tried that broker in vain, and waits before it does again
        except KafkaConnectionError as error:
            if not is_unsent(error):
                raise
        sleep(BACKOFF_S)
    return call()


def is_unsent(error: Exception) -> bool:
    """Whether a connection was not even opened."""
    return _NOT_CONNECTED.search(str(error)) is not None
