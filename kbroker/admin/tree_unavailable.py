"""The answers to clients when the tree cannot be reached or written, and how long they wait for
it.

Kafka's brokers wait for ZooKeeper as long as their session may live. So do requests that any broker
answers. A request that only the controller may carry out is refused at once with NOT_CONTROLLER, so
that clients look for the controller: a broker without its tree is not one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kbroker.errors import ErrorCode, KafkaError
from kbroker.zk.tree import SessionState, Tree, TreeStorageError, TreeUnavailableError

ResultT = TypeVar("ResultT")

PATIENCE_S = 15.0
_LOOK_INTERVAL_S = 0.05


def tree_refusal(error: TreeUnavailableError) -> KafkaError:
    """The answer to a request that any broker can work, once its patience has ended."""
    if isinstance(error, TreeStorageError):
        message = f"The cluster's metadata cannot be changed now: {error}"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
    message = "The cluster's metadata cannot be reached now. Ask again."
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)  # every client tries this again


def not_controller_refusal(error: TreeUnavailableError) -> KafkaError:
    """The answer to a request that only a controller can work."""
    if isinstance(error, TreeStorageError):
        return tree_refusal(error)
    message = "This broker has lost its connection to the cluster's metadata. Ask again."
    return KafkaError(ErrorCode.NOT_CONTROLLER, message)


async def patiently(tree: Tree, action: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """The result of `action`, repeated if the tree went away meanwhile.

    Raises KafkaError REQUEST_TIMED_OUT if the tree stays away, KAFKA_STORAGE_ERROR if its disk
    refuses.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PATIENCE_S
    while True:
        try:
            return await action()
        except TreeStorageError as error:
            raise tree_refusal(error) from error
        except TreeUnavailableError as error:
            last = error
        while True:
            if loop.time() >= deadline_s:
                raise tree_refusal(last) from last
            await asyncio.sleep(_LOOK_INTERVAL_S)
            if tree.state is SessionState.CONNECTED:
                break
