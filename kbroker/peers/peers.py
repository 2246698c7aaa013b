"""Peers: compares a request's claims about its sender with the tree.

Law: a true sender is never refused because this broker is behind: before a refusal the tree catches
up. While it cannot be read the sender waits, as an order refused by mistake would not come again.
The tree is asked once for each controller and each registration, not for each request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kbroker.clock import Clock
from kbroker.errors import ErrorCode, ProtocolError
from kbroker.peers.cluster_action import (
    BrokerClaim,
    ControllerClaim,
    PeerListeners,
    broker_refusal,
    controller_refusal,
)
from kbroker.zk import zk_paths
from kbroker.zk.nodes.cluster_members import ClusterMembers
from kbroker.zk.tree import TreeUnavailableError, WatchEvent

TREE_BACKOFF_S = 0.1
TREE_PATIENCE_MS = 30_000.0  # controller.socket.timeout.ms: the sender has given up by then
_LOOKS = 3  # a seat that changes hands between two reads is read again


class Peers:
    """The other brokers of the cluster, as far as their requests show. Owned by the event loop."""

    def __init__(self, listeners: PeerListeners, members: ClusterMembers, clock: Clock) -> None:
        self._listeners = listeners
        self._members = members
        self._clock = clock
        self._controller: ControllerClaim | None = None  # the latest one in the tree
        self._registered: dict[str, int] = {}  # epochs by the paths of nodes that are watched

    def are_heard_on(self, listener_name: str) -> bool:
        """Whether a request through this listener may come from a broker."""
        return self._listeners.is_open_to(listener_name)

    @property
    def are_there(self) -> bool:
        """Whether there may be other brokers, heard on some listener."""
        return bool(self._listeners.names)

    async def controller_refusal(self, claim: ControllerClaim) -> ErrorCode:
        """The error if orders are not the controller's, NONE if they are.

        Raises ProtocolError, which closes the connection, if the tree stays out of reach.
        """
        if claim == self._controller:
            return ErrorCode.NONE
        refusal = await self._when_readable(lambda: self._look_at_controller(claim))
        if refusal is ErrorCode.NONE:
            self._controller = claim
        return refusal

    def is_known(self, claim: BrokerClaim) -> bool:
        """Whether a request is from the broker it names, as far as that is known without asking."""
        epoch = self._registered.get(zk_paths.broker_path(claim.broker_id))
        return epoch is not None and broker_refusal(claim, epoch) is ErrorCode.NONE

    async def broker_refusal(self, claim: BrokerClaim) -> ErrorCode:
        """The error if a request is not from the broker it names, NONE if it may be. Raises as
        `controller_refusal` does.
        """
        if self.is_known(claim):
            return ErrorCode.NONE
        return await self._when_readable(lambda: self._look_at_broker(claim))

    async def _look_at_controller(self, claim: ControllerClaim) -> ErrorCode:
        refusal = ErrorCode.NONE
        for _ in range(_LOOKS):
            refusal = controller_refusal(claim, ControllerClaim(*await self._members.controller()))
            if refusal is ErrorCode.NONE:
                break
            await self._members.catch_up()
        return refusal

    async def _look_at_broker(self, claim: BrokerClaim) -> ErrorCode:
        refusal = broker_refusal(claim, await self._registered_epoch(claim.broker_id))
        if refusal is ErrorCode.NONE:
            return refusal
        await self._members.catch_up()
        return broker_refusal(claim, await self._registered_epoch(claim.broker_id))

    async def _registered_epoch(self, broker_id: int) -> int | None:
        path = zk_paths.broker_path(broker_id)
        self._registered.pop(path, None)
        epoch = await self._members.broker_epoch(broker_id, self._on_change)
        if epoch is not None:
            self._registered[path] = epoch
        return epoch

    def _on_change(self, event: WatchEvent) -> None:
        self._registered.pop(event.path, None)

    async def _when_readable(self, look: Callable[[], Awaitable[ErrorCode]]) -> ErrorCode:
        end_ms = self._clock.monotonic_ms() + TREE_PATIENCE_MS
        while True:
            try:
                return await look()
            except TreeUnavailableError as error:
                if self._clock.monotonic_ms() >= end_ms:
                    raise ProtocolError("the tree cannot say who speaks") from error
            await asyncio.sleep(TREE_BACKOFF_S)
