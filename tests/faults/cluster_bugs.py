"""Known mistakes of controllers, brokers and clients of the tree, each a context manager that makes
this one commit it.

The simulation of clusters must find every one of them: otherwise that it finds nothing means
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import PropertyMock, patch

from kbroker.controller.channels.controller_channel_manager import _Sender
from kbroker.controller.channels.request_queue import RequestQueue
from kbroker.controller.event_handlers.broker_changes import BrokerChanges
from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.event_handlers.topic_changes import TopicChanges
from kbroker.controller.event_handlers.topic_deletions import TopicDeletions
from kbroker.controller.kafka_controller import KafkaController
from kbroker.controller.state_machines import partition_state_machine
from kbroker.controller.state_machines.controller_context import ControllerContext, ReplicaState
from kbroker.controller.state_machines.request_batch import RequestBatch
from kbroker.errors import ErrorCode
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import LeaderAndIsr
from kbroker.replication.controller_requests.controller_requests import ControlRequests
from kbroker.replication.controller_requests.leadership import Leadership
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import TreeSession
from kbroker.zk.tree import Op
from kbroker.zk.zk_utils import ZkUtils
from kbroker.zk.zk_watchers import ChangeNotificationWatcher

Mistake = Callable[[], AbstractContextManager[Any]]


@contextmanager
def controller_epoch_ignored() -> Iterator[None]:
    """Brokers do what a controller says that has been replaced."""
    epoch = PropertyMock(return_value=0)
    with (
        patch.object(Leadership, "controller_epoch", epoch, create=True),
        patch.object(ControlRequests, "_refusal", _broker_epoch_only),
    ):
        yield


async def _broker_epoch_only(
    control: ControlRequests, request: Any, _connection: int = 0
) -> ErrorCode:
    own_epoch = control._broker_epoch()
    is_stale = request.broker_epoch != -1 and request.broker_epoch < own_epoch
    return ErrorCode.STALE_BROKER_EPOCH if is_stale else ErrorCode.NONE


def broker_epoch_ignored() -> AbstractContextManager[Any]:
    """Brokers do what was meant for an earlier life of theirs."""

    async def refusal(control: ControlRequests, request: Any, _connection: int = 0) -> ErrorCode:
        is_stale = request.controller_epoch < control._leadership.controller_epoch
        return ErrorCode.STALE_CONTROLLER_EPOCH if is_stale else ErrorCode.NONE

    return patch.object(ControlRequests, "_refusal", refusal)


def unfenced_write() -> AbstractContextManager[Any]:
    """A controller writes without comparing its epoch."""

    async def fenced_all(zk: ZkUtils, transactions: Sequence[Sequence[Op]], _version: int) -> Any:
        return await zk.tree.multi_all(transactions)

    return patch.object(ZkUtils, "fenced_all", fenced_all)


def controller_epoch_not_raised() -> AbstractContextManager[Any]:
    """A new controller takes the epoch of the last one."""
    encode = zk_paths.encode_controller_epoch
    return patch.object(
        zk_paths, "encode_controller_epoch", lambda epoch: encode(max(epoch - 1, 0))
    )


def acts_while_suspended() -> AbstractContextManager[Any]:
    """A controller that cannot reach the tree takes itself for one."""
    is_active = PropertyMock()
    is_active.__get__ = lambda _, controller, __=None: controller._reign is not None
    return patch.object(KafkaController, "is_active", is_active)


def context_kept_after_the_reign() -> AbstractContextManager[Any]:
    """A controller that should resign goes on."""

    async def resign(_controller: KafkaController) -> None:
        pass

    return patch.object(KafkaController, "_resign", resign)


def not_registered_anew() -> AbstractContextManager[Any]:
    """After the loss of its session, a broker does not register."""

    async def on_new_session(controller: KafkaController, event: Any) -> None:
        controller._set_connected(True)
        await controller._on_seat_change(event)

    return patch.object(KafkaController, "_on_new_session", on_new_session)


def watches_lost_with_the_connection() -> AbstractContextManager[Any]:
    """Never tell a client of changes made while it was away."""
    original = TreeSession._connect

    def connect(session: TreeSession) -> None:
        session._missed.clear()
        original(session)

    return patch.object(TreeSession, "_connect", connect)


def read_before_the_watch() -> AbstractContextManager[Any]:
    """The brokers are read, and watched a moment later."""
    original = ZkUtils.all_brokers

    async def all_brokers(zk: ZkUtils, *watches: Any) -> Any:
        found = await original(zk)
        if any(watches):
            await original(zk, *watches)
        return found

    return patch.object(ZkUtils, "all_brokers", all_brokers)


def topics_watched_once() -> AbstractContextManager[Any]:
    """The watch of the topics is not set again after it has fired."""
    original = ZkUtils.topics
    watching: set[int] = set()

    async def topics(zk: ZkUtils, watch: Any = None) -> Any:
        is_first = zk.tree.session_id not in watching
        if watch is not None:
            watching.add(zk.tree.session_id)
        return await original(zk, watch if is_first else None)

    return patch.object(ZkUtils, "topics", topics)


def notifications_skipped() -> AbstractContextManager[Any]:
    """Of several changes that came at once, the last one is heard."""

    async def read_new(watcher: ChangeNotificationWatcher) -> None:
        found = await watcher._notifications()
        for number, path in sorted(each for some in found for each in some)[-1:]:
            if number > watcher._last_number:
                await watcher._handle(path)
                watcher._last_number = number

    return patch.object(ChangeNotificationWatcher, "_read_new", read_new)


def returned_broker_not_told() -> AbstractContextManager[Any]:
    """A broker that comes back hears of the other brokers, and not of the partitions."""

    async def on_startup(changes: BrokerChanges, _come: list[int]) -> None:
        changes._states.send_metadata(changes._context.live_brokers)

    return patch.object(BrokerChanges, "_on_startup", on_startup)


def deleted_topics_known_for_good() -> AbstractContextManager[Any]:
    """Returned brokers are told what there is, not what has gone (as Kafka's are)."""

    def add_full_metadata(batch: RequestBatch, broker_ids: Any) -> None:
        batch.add_update_metadata(broker_ids, batch._context.leadership)

    return patch.object(RequestBatch, "add_full_metadata", add_full_metadata)


def answers_of_earlier_lives_believed() -> AbstractContextManager[Any]:
    """Count answers that a broker gave before it registered again for its present life."""
    return patch.object(ControllerContext, "is_registered", lambda *_: True)


def deletion_forgets_a_replica() -> AbstractContextManager[Any]:
    """A topic goes before its last replica is deleted."""
    original = StateChanges.replicas_deletion_started

    def started(states: StateChanges, replicas: Any) -> None:
        all_of_them = list(replicas)
        original(states, all_of_them)
        last = all_of_them[-1:]
        states.replicas.move(last, ReplicaState.DELETION_SUCCESSFUL)

    return patch.object(StateChanges, "replicas_deletion_started", started)


def requests_reordered() -> AbstractContextManager[Any]:
    """A broker gets the newest request first."""
    original = _Sender.put

    def put(sender: _Sender, request: Any) -> None:
        original(sender, request)
        if len(sender.queue) > 1:
            sender.queue.put_back(sender.queue._waiting.pop())

    return patch.object(_Sender, "put", put)


def failed_requests_dropped() -> AbstractContextManager[Any]:
    """A request that did not get through is not sent again."""
    return patch.object(RequestQueue, "put_back", lambda *_: None)


def failed_events_forgotten() -> AbstractContextManager[Any]:
    """An event that failed half way is not made good."""
    return patch.object(KafkaController, "read_anew", lambda *_: None)


def leader_epoch_not_raised() -> AbstractContextManager[Any]:
    """A new leader leads at the epoch of the last one."""

    def elected(**named: Any) -> LeaderAndIsr:
        named["leader_epoch"] = max(named["leader_epoch"] - 1, 0)
        return LeaderAndIsr(**named)

    return patch.object(partition_state_machine, "LeaderAndIsr", elected)


def growth_overlooked() -> AbstractContextManager[Any]:
    """Partitions added to a topic get no leader until the next controller."""

    async def nothing(_changes: TopicChanges, _event: object) -> None:
        pass

    return patch.object(TopicChanges, "on_partition_modifications", nothing)


def old_logs_taken_for_new_topics() -> AbstractContextManager[Any]:
    """Deleted partitions stay on the disk, and the topic ids of logs are not compared."""
    return patch.object(LogManager, "delete_log", lambda *_: True)


def past_lives_remembered() -> AbstractContextManager[Any]:
    """Hold against a broker's next life what it was about to do, or could not do, in the last."""
    return patch.object(BrokerChanges, "_forget_past", lambda *_: None)


def deletion_not_retried() -> AbstractContextManager[Any]:
    """A topic that waited for a broker waits on when it is back."""

    async def retry(_deletions: TopicDeletions, _topics: object) -> None:
        pass

    return patch.object(TopicDeletions, "retry", retry)


# A seed, and the steps of its history, with which each is found soon, where that is not the first.
FOUND_SOON: dict[Mistake, tuple[int, int]] = {
    leader_epoch_not_raised: (2, 60),
    not_registered_anew: (5, 60),
    old_logs_taken_for_new_topics: (2, 60),
    deletion_not_retried: (3, 60),
    returned_broker_not_told: (2, 60),
    acts_while_suspended: (2, 60),
    controller_epoch_ignored: (77, 12),
    broker_epoch_ignored: (29, 15),
    context_kept_after_the_reign: (6, 15),
    watches_lost_with_the_connection: (16, 15),
    read_before_the_watch: (33, 15),
    topics_watched_once: (7, 15),
    notifications_skipped: (47, 60),
    deleted_topics_known_for_good: (140, 60),
    answers_of_earlier_lives_believed: (70, 60),
    deletion_forgets_a_replica: (117, 15),
    requests_reordered: (14, 15),
    failed_requests_dropped: (29, 15),
    failed_events_forgotten: (183, 60),
    past_lives_remembered: (167, 60),
    growth_overlooked: (32, 15),
}
REST = "not at rest"
# Each with the kinds of violation by which it is found.
PLANTED: dict[Mistake, frozenset[str]] = {
    controller_epoch_ignored: frozenset({"order of an older controller"}),
    broker_epoch_ignored: frozenset({"order for an earlier life"}),
    unfenced_write: frozenset({"unfenced write", "write of a fenced controller"}),
    controller_epoch_not_raised: frozenset({"controller epoch", "two controllers"}),
    acts_while_suspended: frozenset({"controller without session"}),
    context_kept_after_the_reign: frozenset({REST, "two controllers", "task left"}),
    not_registered_anew: frozenset({REST}),
    watches_lost_with_the_connection: frozenset({REST}),
    read_before_the_watch: frozenset({REST}),
    topics_watched_once: frozenset({REST}),
    notifications_skipped: frozenset({REST}),
    returned_broker_not_told: frozenset({REST}),
    deleted_topics_known_for_good: frozenset({REST}),
    answers_of_earlier_lives_believed: frozenset({REST, "log outlives its topic"}),
    deletion_forgets_a_replica: frozenset({"log outlives its topic", "append to a deleted topic"}),
    requests_reordered: frozenset({REST, "log outlives its topic"}),
    failed_requests_dropped: frozenset({REST}),
    failed_events_forgotten: frozenset({REST}),
    leader_epoch_not_raised: frozenset({"leader epoch"}),
    past_lives_remembered: frozenset({REST}),
    deletion_not_retried: frozenset({REST}),
    growth_overlooked: frozenset({REST}),
    old_logs_taken_for_new_topics: frozenset({REST, "log outlives its topic"}),
}
