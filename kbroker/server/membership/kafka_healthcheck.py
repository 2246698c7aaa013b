"""KafkaHealthcheck: keeps this broker registered in the tree for as long as it runs, with a new
node and a new epoch for each session.

Law: the node of a live broker is never removed, because two brokers would then have one id. If an
earlier run left a node, the broker waits for its end, at most as long as ZooKeeper takes to end an
abandoned session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

from kbroker.model import UNKNOWN_BROKER_EPOCH, Broker, EndPoint
from kbroker.server.start_error import BrokerIdInUseError, StartError
from kbroker.zk import zk_paths
from kbroker.zk.tree import NodeExistsError, NoNodeError, Stat, TreeUnavailableError
from kbroker.zk.zk_utils import ZkUtils

_log = logging.getLogger(__name__)

RETRY_BACKOFF_S = 0.2  # between two attempts while the tree cannot be reached
GRACE_MS = 2_000  # an ensemble may notice the end of a session this late

Probe = Callable[[EndPoint], Awaitable[bool]]  # whether a broker answers there


class KafkaHealthcheck:
    """Registers the broker; the creation id of its node is its `broker_epoch`, which fences earlier
    registrations. Owned by the event loop.
    """

    def __init__(self, zk: ZkUtils, session_timeout_ms: float, is_alive: Probe) -> None:
        self._zk = zk
        self._session_timeout_ms = session_timeout_ms
        self._is_alive = is_alive
        self._own_sessions: set[int] = set()
        self._broker: Broker | None = None  # registered last
        self.broker_epoch = UNKNOWN_BROKER_EPOCH

    async def register(self, broker: Broker) -> int:
        """Register for the present session, and return the broker epoch.

        Waits while the tree cannot be reached. Raises BrokerIdInUseError.
        """
        self._broker = broker
        while True:
            try:
                self._own_sessions.add(self._zk.tree.session_id)
                self.broker_epoch = await self._register(broker)
            except TreeUnavailableError as error:
                _log.warning("broker %d cannot register now: %r", broker.broker_id, error)
                await asyncio.sleep(RETRY_BACKOFF_S)
            else:
                return self.broker_epoch

    async def register_again(self, refused: Callable[[StartError], None]) -> int:
        """Register for a session that follows another. If another broker has the id by now,
        `refused` is called and this never returns: its caller stops with the broker.
        """
        assert self._broker is not None, "no session follows one without a registration"
        try:
            return await self.register(self._broker)
        except StartError as error:
            refused(error)
        stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        return await stopped

    async def _register(self, broker: Broker) -> int:
        while True:
            try:
                return await self._zk.register_broker(broker)
            except NodeExistsError:
                epoch = await self._look_at_the_other(broker)
                if epoch is not None:
                    return epoch

    async def _look_at_the_other(self, own: Broker) -> int | None:
        """Return the epoch of a node that is ours after all; None once the other node is gone."""
        path = zk_paths.broker_path(own.broker_id)
        gone = asyncio.Event()
        stat = await self._zk.tree.exists(path, lambda _: gone.set())
        if stat is None:
            return None
        if stat.ephemeral_owner == self._zk.tree.session_id:  # made, but the answer was lost
            return stat.czxid
        if stat.ephemeral_owner in self._own_sessions:  # of a session that has ended since
            with suppress(NoNodeError):
                await self._zk.tree.delete(path, stat.version)
            return None
        await self._wait_for_its_end(own, stat, gone)
        return None

    async def _wait_for_its_end(self, own: Broker, stat: Stat, gone: asyncio.Event) -> None:
        broker_id = own.broker_id
        await refuse_id_in_use(self._zk, broker_id, self._is_alive, own.end_points)
        limit_ms = self._session_timeout_ms + GRACE_MS
        _log.warning(
            "broker.id %d is still registered by an earlier run (session 0x%x), which does not "
            "answer: waiting up to %g s for its session to end",
            broker_id,
            stat.ephemeral_owner,
            limit_ms / 1000,
        )
        try:
            await asyncio.wait_for(gone.wait(), limit_ms / 1000)
        except TimeoutError:
            raise BrokerIdInUseError(
                f"broker.id {broker_id} is still registered after {limit_ms / 1000:g} s: give this "
                "broker another broker.id, or stop the other one"
            ) from None


async def refuse_id_in_use(
    zk: ZkUtils, broker_id: int, is_alive: Probe, own: Collection[EndPoint] = ()
) -> None:
    """Raise BrokerIdInUseError if a broker that is registered under an id answers.

    An address is not tried if this broker listens there (`own`), or one with another id does now.
    """
    brokers = await zk.all_brokers()
    taken = {e for broker in brokers if broker.broker_id != broker_id for e in broker.end_points}
    for broker in brokers:
        for end_point in broker.end_points:
            if broker.broker_id != broker_id or end_point in taken or end_point in own:
                continue
            if await is_alive(end_point):
                raise BrokerIdInUseError(
                    f"broker.id {broker_id} is in use by a running broker of this cluster "
                    f"({end_point}): give this one another broker.id, or stop the other"
                )
