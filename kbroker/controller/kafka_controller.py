"""KafkaController: the thin shell around the controller's machines.

Every change of the cluster becomes an event in one queue; working an event means: read the tree,
ask the machines, write what they say (fenced by the controller epoch), tell the brokers. A
controller that finds its epoch raised by another one drops everything and stays a plain broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from kbroker.controller.cluster_changes import ClusterChanges
from kbroker.controller.controller_channel_manager import (
    BrokerChannel,
    ControllerChannelManager,
    ControlResponse,
)
from kbroker.controller.event_queue import EventQueue
from kbroker.controller.machines import events
from kbroker.controller.machines.controller_context import ControllerContext
from kbroker.controller.machines.events import Event
from kbroker.controller.machines.request_batch import ControlRequest
from kbroker.controller.state_changes import StateChanges
from kbroker.controller.zookeeper_leader_elector import (
    NO_CONTROLLER,
    Seat,
    ZookeeperLeaderElector,
)
from kbroker.errors import ErrorCode
from kbroker.model import Broker, TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.zk.tree import SessionState, TreeError
from kbroker.zk.zk_utils import ControllerMovedError, ZkUtils

log = logging.getLogger(__name__)

GIVE_UP_BACKOFF_S = 1.0  # between two attempts to be controller


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """What a controller needs to know of its broker."""

    broker_id: int
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False


class KafkaController:
    """One per broker; active on one of them. Owned by the event loop."""

    def __init__(
        self,
        settings: ControllerSettings,
        zk: ZkUtils,
        connect: Callable[[Broker], BrokerChannel],
        on_activity_change: Callable[[bool], None] | None = None,
        register_broker: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        """`connect` opens the channel to a broker.

        `on_activity_change` hears when this broker becomes controller. `register_broker` registers
        it in the tree after a session has ended, and returns the new broker epoch.
        """
        self._register_broker = register_broker
        self._settings = settings
        self._zk = zk
        self._connect = connect
        self._on_activity_change = on_activity_change
        self._session_id = zk.tree.session_id
        self._queue = EventQueue(self._process)
        self._elector = ZookeeperLeaderElector(
            zk,
            settings.broker_id,
            on_change=lambda: self._note(events.ControllerChange()),
            on_vacancy=lambda: self._note(events.Reelect()),
        )
        self._changes: ClusterChanges | None = None  # present while this broker is controller

    @property
    def is_active(self) -> bool:
        """True while this broker is the controller."""
        return self._changes is not None

    @property
    def controller_id(self) -> int:
        """Who is controller, -1 for nobody."""
        return self._elector.controller_id

    @property
    def epoch(self) -> int:
        """The controller epoch while this broker is controller, else 0."""
        return self._changes.context.epoch if self._changes else 0

    @property
    def context(self) -> ControllerContext | None:
        """What the active controller knows; to read only."""
        return self._changes.context if self._changes else None

    async def startup(self) -> None:
        """Compete for the controller's seat; returns when it is known who has it."""
        self._session_id = self._zk.tree.session_id
        self._zk.tree.add_session_listener(self._on_session_state)
        self._queue.start()
        await self._put(events.Startup())

    async def shutdown(self) -> None:
        """Stop working events and give the seat up."""
        await self._queue.stop()
        changes = self._changes
        await self._resign()
        if changes is not None:
            await self._leave_seat(changes.context.epoch_version)

    async def controlled_shutdown(self, broker_id: int) -> list[TopicPartition]:
        """Move leaderships away from a broker.

        Returns the partitions it still leads (with other replicas).
        """
        await self._put(events.ControlledShutdown(broker_id))
        return self._changes.led_with_others(broker_id) if self._changes else []

    async def elect_preferred_leaders(self, partitions: frozenset[TopicPartition] | None) -> None:
        """Move leadership to the preferred replicas of these partitions, or of all."""
        await self._put(events.ReplicaLeaderElection(partitions))

    # ---- inside

    def _put(self, event: Event) -> asyncio.Future[None]:
        return self._queue.put(event)

    def _note(self, event: Event) -> None:
        self._queue.put(event)

    async def _process(self, event: Event) -> None:
        try:
            if isinstance(event, events.Startup | events.Reelect | events.ControllerChange):
                await self._settle_seat()
            elif isinstance(event, events.Expire):
                await self._resign()
            elif isinstance(event, events.RegisterBrokerAndReelect):
                await self._register_and_reelect()
            elif self._changes is not None:
                await self._changes.on(event)
        except ControllerMovedError as error:
            log.info("no longer controller: %s", error)
            await self._resign()
            self._note(events.Reelect())  # the seat may be empty by now

    async def _register_and_reelect(self) -> None:
        if self._register_broker is not None:
            await self._register_broker()
        await self._settle_seat()

    async def _settle_seat(self) -> None:
        """Find out who is controller; resign if it is another one, compete if it is nobody."""
        holder = await self._elector.look()
        if self.is_active and holder != self._settings.broker_id:
            await self._resign()
        if holder == NO_CONTROLLER:
            seat = await self._elector.elect()
            if seat is not None:
                await self._take_over(seat)

    async def _take_over(self, seat: Seat) -> None:
        log.info("controller with epoch %d", seat.epoch)
        context = ControllerContext()
        context.epoch, context.epoch_version = seat.epoch, seat.epoch_version
        channels = ControllerChannelManager(self._connect, self._on_response)
        states = StateChanges(
            context,
            self._zk,
            channels,
            broker_id=self._settings.broker_id,
            unclean_by_default=self._settings.unclean_leader_election_enable,
        )
        self._changes = ClusterChanges(
            states,
            put=self._put,
            delete_topic_enable=self._settings.delete_topic_enable,
        )
        try:
            await self._changes.start()
        except ControllerMovedError:
            raise
        except Exception:
            log.exception("broker %d cannot be controller now", self._settings.broker_id)
            await self._give_up(seat)
            return
        if self._on_activity_change is not None:
            self._on_activity_change(True)

    async def _give_up(self, seat: Seat) -> None:
        """Let another broker try, or this one again: half a controller is worse than none."""
        await self._resign()
        await asyncio.sleep(GIVE_UP_BACKOFF_S)
        await self._leave_seat(seat.epoch_version)

    async def _leave_seat(self, epoch_version: int) -> None:
        with suppress(TreeError, ControllerMovedError):
            await self._zk.delete_controller(epoch_version)

    async def _resign(self) -> None:
        changes, self._changes = self._changes, None
        if changes is None:
            return
        await changes.stop()
        if self._on_activity_change is not None:
            self._on_activity_change(False)

    def _on_session_state(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._put(events.Expire())
        elif state is SessionState.CONNECTED and self._zk.tree.session_id != self._session_id:
            self._session_id = self._zk.tree.session_id
            self._put(events.RegisterBrokerAndReelect())

    def _on_response(
        self, broker_id: int, request: ControlRequest, response: ControlResponse
    ) -> None:
        if isinstance(request, LeaderAndIsrRequest):
            assert isinstance(response, LeaderAndIsrResponse)
            self._put(_leader_and_isr_outcome(broker_id, request, response))
        elif isinstance(request, StopReplicaRequest):
            assert isinstance(response, StopReplicaResponse)
            outcome = _deletion_outcome(broker_id, request, response)
            if outcome.deleted or outcome.failed:
                self._put(outcome)
        elif response.error_code != ErrorCode.NONE:
            log.error(
                "broker %d refused new metadata: %s", broker_id, ErrorCode(response.error_code)
            )


def _leader_and_isr_outcome(
    broker_id: int, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> events.LeaderAndIsrResponseReceived:
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    offline: set[TopicPartition] = set()
    online: set[TopicPartition] = set()
    for topic in response.topics:
        for answer in topic.partition_errors:
            partition = TopicPartition(names[topic.topic_id], answer.partition_index)
            if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                offline.add(partition)
            elif answer.error_code == ErrorCode.NONE:
                online.add(partition)
            else:
                log.warning(
                    "broker %d: %s: %s", broker_id, partition, ErrorCode(answer.error_code).name
                )
    return events.LeaderAndIsrResponseReceived(broker_id, frozenset(offline), frozenset(online))


def _deletion_outcome(
    broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse
) -> events.TopicDeletionStopReplicaResponseReceived:
    asked = {
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition
    }
    if response.error_code != ErrorCode.NONE:
        failed = asked
    else:
        failed = {
            TopicPartition(error.topic_name, error.partition_index)
            for error in response.partition_errors
            if error.error_code != ErrorCode.NONE
        } & asked
    return events.TopicDeletionStopReplicaResponseReceived(
        broker_id, frozenset(asked - failed), frozenset(failed)
    )
