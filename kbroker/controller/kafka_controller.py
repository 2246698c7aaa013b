"""KafkaController: the thin shell around the controller's machines.

Every change of the cluster becomes an event in one queue; working an event means: read the tree,
ask the machines, write their decisions (fenced by the controller epoch), inform the brokers.

Laws:
- Sessions. SUSPENDED: nobody acts as controller, the queue rests and keeps its events. CONNECTED in
  the same session: the reign goes on, if the tree still says so. LOST: the reign and all that is
  queued are dropped. A new session: the broker registers, then takes part in the election.
- A controller that finds its epoch raised, by the tree or by a broker that refuses it, drops
  everything at once and stays a plain broker until it is elected again.
- An event that fails half way leaves a picture nobody can trust: the controller then reads the
  whole cluster again within its reign (`ReadAgain`), until that succeeds. What is queued meanwhile
  is dropped, for the tree says it too; who asked for something is refused with NOT_CONTROLLER and
  asks again. So no change of the cluster is lost.
- Events about the seat are tried again until they succeed or the session ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kbroker.controller.channels.controller_channel_manager import (
    BrokerChannel,
    ControllerChannelManager,
)
from kbroker.controller.channels.controller_responses import ANSWERS, event_of_response
from kbroker.controller.event_handlers.cluster_changes import ClusterChanges, EpochTooLowError
from kbroker.controller.event_handlers.cluster_watches import ClusterWatches
from kbroker.controller.event_handlers.leader_elections import (
    NO_LEADER_BALANCE,
    LeaderBalanceSettings,
)
from kbroker.controller.event_handlers.state_changes import (
    AskLogEnds,
    StateChanges,
    nobody_tells,
)
from kbroker.controller.event_queue import EventQueue, not_controller
from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.controller_context import ControllerContext
from kbroker.controller.state_machines.events import Event
from kbroker.controller.zookeeper_leader_elector import (
    Seat,
    ZookeeperLeaderElector,
)
from kbroker.counters import Counter, CounterRegistry, MetricName
from kbroker.errors import KafkaError
from kbroker.events.event import Note, nobody_notes
from kbroker.features import SUPPORTED_FEATURES
from kbroker.model import UNKNOWN_BROKER_EPOCH, Broker, SupportedFeature, TopicPartition
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from kbroker.zk.tree import SessionState, TreeError, TreeUnavailableError
from kbroker.zk.zk_paths import ZnodeFormatError
from kbroker.zk.zk_utils import ControllerMovedError, ZkUtils

_log = logging.getLogger(__name__)

GIVE_UP_BACKOFF_S = 1.0  # between two attempts to be controller
LEAVE_TIMEOUT_S = 1.0  # a stop waits this long for the tree
RETRY_BACKOFF_S = 0.1  # doubled with every failure in a row
MAX_RETRY_BACKOFF_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ControllerSettings:
    """The facts about its broker that a controller needs."""

    broker_id: int
    delete_topic_enable: bool = True
    unclean_leader_election_enable: Callable[[], bool] = bool  # as it is in force
    inter_broker_listener: str | None = None  # None: a broker's first one
    leader_balance: LeaderBalanceSettings = NO_LEADER_BALANCE
    supported_features: tuple[SupportedFeature, ...] = SUPPORTED_FEATURES
    gives_topic_ids: bool = True  # to topics that were created without
    first_levels: Mapping[str, int] = field(default_factory=dict)  # of features, in a new cluster
    note: Note = nobody_notes  # which leaders and ISRs change, and why


@dataclass(slots=True, eq=False, repr=False)
class _Reign:
    """The time in which this broker is controller."""

    seat: Seat
    changes: ClusterChanges
    is_doubtful: bool = False  # an event has failed half way


class KafkaController:
    """One per broker; active on one of them. Owned by the event loop.

    `queue` holds the events to be handled; while a session is away they wait in it.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        zk: ZkUtils,
        connect: Callable[[Broker], BrokerChannel],
        on_activity_change: Callable[[bool], None] | None = None,
        register_broker: Callable[[], Awaitable[int]] | None = None,
        ask_log_ends: AskLogEnds = nobody_tells,
    ) -> None:
        """`connect` opens the channel to a broker, `ask_log_ends` asks one.

        `on_activity_change` hears when this broker becomes controller. `register_broker` registers
        it in the tree after a session has ended, and returns the new broker epoch.
        """
        self._settings = settings
        self._zk = zk
        self._connect = connect
        self._on_activity_change = on_activity_change
        self._register_broker = register_broker
        self._ask_log_ends = ask_log_ends
        self.unclean_elections = Counter()
        self.queue = EventQueue(self._process)
        self._watches = ClusterWatches(self.queue.put)
        self._elector = ZookeeperLeaderElector(
            zk,
            settings.broker_id,
            on_change=lambda: self.queue.put(events.ControllerChange()),
            on_vacancy=lambda: self.queue.put(events.Reelect()),
        )
        self._session_id = zk.tree.session_id
        self._is_connected = True  # and the seat was looked at since
        self._reign: _Reign | None = None  # present while this broker is controller
        self._was_active = False
        self._failures = 0  # of events about the seat, in a row
        self._retries: dict[Event, asyncio.TimerHandle] = {}
        self._seat_events: dict[type[Event], Callable[[Any], Awaitable[None]]] = {
            events.Startup: self._on_seat_change,
            events.ControllerChange: self._on_seat_change,
            events.Reelect: self._on_seat_change,
            events.Expire: self._on_expire,
            events.RegisterBrokerAndReelect: self._on_new_session,
            events.SessionResumed: self._on_session_resumed,
            events.ControllerFenced: self._on_fenced,
            events.ReadAgain: self._on_read_again,
        }

    def register(self, counters: CounterRegistry) -> None:
        """Name the measures of this controller."""
        name = MetricName("kafka.controller", "ControllerChannelManager", "TotalQueueSize")
        counters.add(name, lambda: self._reign.changes.queue_size if self._reign else 0)
        unclean = MetricName("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec")
        counters.add(unclean, self.unclean_elections)

    @property
    def is_active(self) -> bool:
        """True while this broker is the controller and can act as it."""
        return self._reign is not None and self._is_connected

    @property
    def controller_id(self) -> int:
        """The controller's id, -1 if there is none."""
        return self._elector.controller_id

    @property
    def epoch(self) -> int:
        """The controller epoch while this broker is controller, else 0."""
        return self._reign.seat.epoch if self._reign else 0

    @property
    def is_doubtful(self) -> bool:
        """True while this broker is controller and has yet to read the cluster again."""
        return self._reign is not None and self._reign.is_doubtful

    @property
    def context(self) -> ControllerContext | None:
        return self._reign.changes.context if self._reign else None

    async def startup(self) -> None:
        """Compete for the controller's seat; returns once it is known who has it."""
        self._session_id = self._zk.tree.session_id
        self._zk.tree.add_session_listener(self._on_session_state)
        self.queue.start()
        if self._zk.tree.state is not SessionState.CONNECTED:
            self._on_session_state(self._zk.tree.state)
        with suppress(KafkaError):  # the session ended: the next one begins with the same
            await self.queue.ask(events.Startup())

    async def shutdown(self) -> None:
        """Stop working events and give the seat up."""
        await self.queue.stop()
        self._cancel_retries()
        reign = self._reign
        await self._resign()
        if reign is not None:
            with suppress(TimeoutError):  # the end of the session gives it up too
                async with asyncio.timeout(LEAVE_TIMEOUT_S):
                    await self._leave_seat(reign.seat)

    async def ask(self, event: Event) -> Any:
        """Have an event handled by the active controller, and return its answer.

        Raises KafkaError: the event's refusal, or NOT_CONTROLLER if this broker is not controller,
        or cannot go through with it.
        """
        if not self.is_active:
            raise not_controller()
        return await self.queue.ask(event)

    async def controlled_shutdown(
        self, broker_id: int, broker_epoch: int = UNKNOWN_BROKER_EPOCH
    ) -> list[TopicPartition]:
        """Move leaderships away from a broker.

        Returns the partitions it still leads though they have other replicas. Raises KafkaError
        NOT_CONTROLLER, BROKER_NOT_AVAILABLE, or STALE_BROKER_EPOCH for an earlier life of it.
        """
        partitions: list[TopicPartition] = await self.ask(
            events.ControlledShutdown(broker_id, broker_epoch)
        )
        return partitions

    def enable_unclean_elections(self, topic: str | None = None) -> None:
        """Unclean elections are allowed, for a topic or by default: hold those that waited."""
        if self.is_active:
            self.queue.put(events.UncleanLeaderElectionEnable(topic))

    def read_anew(self) -> None:
        """Trust no known fact about the cluster any more; read everything next."""
        if self._reign is not None:
            self._reign.is_doubtful = True
            self.queue.put_first(events.ReadAgain())

    def on_response(
        self, broker_id: int, request: ControlRequest, response: ControlResponse
    ) -> None:
        """Take a broker's answer to a request of this reign, or of an earlier one."""
        if self._reign is None or self._reign.seat.epoch != request.controller_epoch:
            return  # an answer to an earlier reign
        event = event_of_response(broker_id, request, response)
        if event is not None:
            self.queue.put(event)

    # ---- events

    async def _process(self, event: Event) -> object:
        handler = self._seat_events.get(type(event))
        if handler is None:
            return await self._work(event)
        try:
            await handler(event)
        except ControllerMovedError as error:
            await self._on_moved(error)
        except Exception as error:
            self._try_again(event, error)
        else:
            self._failures = 0
        return None

    async def _work(self, event: Event) -> object:
        reign = self._reign
        if reign is None or self.is_doubtful:
            raise not_controller()
        try:
            return await reign.changes.on(event)
        except KafkaError:
            raise  # refused, and nothing is changed
        except ControllerMovedError as error:
            await self._on_moved(error)
        except TreeUnavailableError as error:
            _log.warning("event %.500s failed, the cluster will be read again: %r", event, error)
            self.read_anew()
        except Exception:
            _log.exception("event %.500s failed, reading the cluster again", event)
            self.read_anew()
        raise not_controller()

    async def _on_moved(self, error: ControllerMovedError) -> None:
        _log.info("no longer controller: %s", error)
        await self._resign()
        self.queue.put(events.Reelect())  # the seat may be empty by now

    def _try_again(self, event: Event, error: Exception) -> None:
        if isinstance(error, ZnodeFormatError):
            self._zk.report(error)
        elif isinstance(error, TreeError):
            _log.warning("%s failed and will be tried again: %r", event, error)
        else:
            _log.error("%s failed and will be tried again", event, exc_info=error)
        self._retry_later(event)

    def _retry_later(self, event: Event, delay_s: float | None = None) -> None:
        if delay_s is None:
            delay_s = min(RETRY_BACKOFF_S * 2**self._failures, MAX_RETRY_BACKOFF_S)
            self._failures += 1
        if event not in self._retries:
            loop = asyncio.get_running_loop()
            self._retries[event] = loop.call_later(delay_s, self._retry, event)

    def _retry(self, event: Event) -> None:
        del self._retries[event]
        self.queue.put_first(event)

    def _cancel_retries(self) -> None:
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()
        self._failures = 0

    # ---- sessions

    def _on_session_state(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            self.queue.rest()
            self._set_connected(False)
        elif state is SessionState.LOST:
            self._cancel_retries()
            self.queue.drop(lambda _: True)
            self.queue.put_first(events.Expire())
            self.queue.wake()
            self._set_connected(False)
        elif self._zk.tree.session_id == self._session_id:
            self.queue.put_first(events.SessionResumed())
            self.queue.wake()
        else:
            self._session_id = self._zk.tree.session_id
            self.queue.put(events.RegisterBrokerAndReelect())
            self.queue.wake()

    async def _on_expire(self, _event: events.Expire) -> None:
        await self._resign()

    async def _on_new_session(self, event: events.RegisterBrokerAndReelect) -> None:
        if self._register_broker is not None:
            await self._register_broker()
        self._set_connected(True)
        await self._on_seat_change(event)

    async def _on_session_resumed(self, event: events.SessionResumed) -> None:
        if self._reign is not None and not await self._elector.holds(self._reign.seat):
            _log.info("another broker has become controller meanwhile")
            await self._resign()
        self._set_connected(True)
        await self._on_seat_change(event)

    def _set_connected(self, is_connected: bool) -> None:
        self._is_connected = is_connected and self._zk.tree.state is SessionState.CONNECTED
        self._announce()

    # ---- the seat

    async def _on_seat_change(self, _event: Event) -> None:
        """Find out who is controller; resign if it is another broker, compete if there is none."""
        holder = await self._elector.look()
        if self._reign is not None:
            if holder == self._settings.broker_id:
                return
            _log.info("no longer controller: /controller names %d", holder)
            await self._resign()
        if await self._elector.clear_own_node():
            seat = await self._elector.elect()
            if seat is not None:
                await self._take_over(seat)

    async def _on_fenced(self, event: events.ControllerFenced) -> None:
        if self._reign is not None and self._reign.seat.epoch == event.controller_epoch:
            _log.warning("a broker knows a newer controller than epoch %d", event.controller_epoch)
            await self._resign()
            self._retry_later(events.Reelect(), GIVE_UP_BACKOFF_S)

    async def _take_over(self, seat: Seat) -> None:
        _log.info("controller with epoch %d", seat.epoch)
        self._reign = _Reign(seat, self._changes_of(seat))
        try:
            await self._reign.changes.start()
        except ControllerMovedError:
            raise
        except EpochTooLowError as error:
            _log.warning("epoch %d is not the highest: %s", seat.epoch, error)
            self._elector.outdo(error.epoch)
            await self._resign()
            await self._leave_seat(seat)
            self._retry_later(events.Reelect())
            return
        except Exception as error:
            is_lost = isinstance(error, TreeUnavailableError)  # the session: nobody's fault
            level, trace = (logging.WARNING, None) if is_lost else (logging.ERROR, error)
            broker_id = self._settings.broker_id
            _log.log(
                level, "broker %d cannot be controller now: %r", broker_id, error, exc_info=trace
            )
            await self._give_up(seat)
            return
        self._announce()

    def _changes_of(self, seat: Seat) -> ClusterChanges:
        context = ControllerContext()
        context.epoch, context.epoch_version = seat.epoch, seat.epoch_version
        context.inter_broker_listener = self._settings.inter_broker_listener
        context.gives_topic_ids = self._settings.gives_topic_ids
        context.first_levels = self._settings.first_levels
        context.unclean_elections = self.unclean_elections
        states = StateChanges(
            context,
            self._zk,
            ControllerChannelManager(self._connect, self.on_response),
            broker_id=self._settings.broker_id,
            unclean_by_default=self._settings.unclean_leader_election_enable,
            ask_log_ends=self._ask_log_ends,
        )
        states.note = self._settings.note
        return ClusterChanges(
            states,
            self._watches,
            put=self.queue.put,
            delete_topic_enable=self._settings.delete_topic_enable,
            leader_balance=self._settings.leader_balance,
            supported_features=self._settings.supported_features,
        )

    async def _on_read_again(self, _event: events.ReadAgain) -> None:
        reign = self._reign
        if reign is None or not reign.is_doubtful:
            return
        # All orders are given once more: answers to earlier ones prove nothing about them.
        self.queue.drop(lambda event: isinstance(event, ANSWERS))
        reign.changes.forget_orders()
        try:
            await reign.changes.start()
        except (ControllerMovedError, TreeUnavailableError):
            raise
        except EpochTooLowError as error:
            raise ControllerMovedError(str(error)) from error
        except Exception:
            _log.exception("broker %d cannot go on as controller", self._settings.broker_id)
            await self._give_up(reign.seat)
            return
        reign.is_doubtful = False

    async def _give_up(self, seat: Seat) -> None:
        """Let another broker try, or this one again: half a controller is worse than none."""
        await self._resign()
        await asyncio.sleep(GIVE_UP_BACKOFF_S)
        await self._leave_seat(seat)
        self._retry_later(events.Reelect())

    async def _leave_seat(self, seat: Seat) -> None:
        with suppress(TreeError, ControllerMovedError):
            await self._zk.delete_controller(seat.epoch_version)

    async def _resign(self) -> None:
        reign, self._reign = self._reign, None
        if reign is None:
            return
        self._announce()
        self.queue.drop(lambda event: type(event) not in self._seat_events)
        await reign.changes.stop()

    def _announce(self) -> None:
        if self._was_active != self.is_active:
            self._was_active = self.is_active
            if self._on_activity_change is not None:
                self._on_activity_change(self.is_active)
