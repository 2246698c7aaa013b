"""TopicAdmin (Kafka's ZkAdminManager): creates, grows and deletes topics.

The controller then acts on its writes.

Law: everything is checked before anything is written, so that a refusal leaves nothing behind.
Refusals of one topic are values in its result, with the sentences of Kafka 3.9. Calls return when
this broker's metadata shows the change, so that the client finds it here at once, or when the
caller's time is up (REQUEST_TIMED_OUT; the change still happens).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace

from kbroker.admin.config_changes import check_count
from kbroker.admin.internal_topics import new_topic
from kbroker.admin.new_topics import (
    UNKNOWN_COUNT,
    CountPartitions,
    NewTopics,
    TopicResult,
    topic_exists,
    topic_too_large,
)
from kbroker.admin.replica_assignment import (
    MAX_PARTITIONS_AT_ONCE,
    MAX_PARTITIONS_IN_ALL,
    SpreadStart,
    assign_replicas,
    check_partitions_at_once,
    shared_assignments,
    too_many_partitions,
)
from kbroker.admin.topic_validation import (
    validate_added_assignments,
    validate_increase,
    validate_topic_name,
)
from kbroker.admin.tree_unavailable import not_controller_refusal
from kbroker.config.config_view import ConfigEntry, describe_topic
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.protocol_version import gives_topic_ids
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import (
    GROUP_METADATA_TOPIC,
    NO_LEADER,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from kbroker.peers.metadata_waiter import MetadataView, MetadataWaiter
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.turns import turn
from kbroker.zk.tree import (
    BadVersionError,
    NodeExistsError,
    NodeTooLargeError,
    NoNodeError,
    TreeUnavailableError,
)
from kbroker.zk.zk_paths import TopicAssignment
from kbroker.zk.zk_utils import MAX_CONFLICTS, ZkUtils

_log = logging.getLogger(__name__)

AUTO_CREATE_TIMEOUT_MS = 5_000
# A deleted topic leaves the metadata first, and the tree when its replicas are gone. Until then its
# name cannot be used again, which a client that deletes and recreates must not see.
NAME_FREE_TIMEOUT_MS = 2_000
_ASK_DEFAULT = -1
Described = dict[tuple[tuple[str, str], ...], list[ConfigEntry]]
"""All settings of topics, by their own: most topics of a request have the same."""
_TOPICS_PER_TURN = 25  # of a long list, then others get their turn: about 5 ms
_PARTITIONS_PER_TURN = 2_500  # of all these topics
_LOOKS_PER_TURN = 256  # as well
_FACTOR_SETTINGS = {
    GROUP_METADATA_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
}


def _count_none(_partitions: int) -> None:
    pass


class TopicAdmin:
    """Works the requests of clients about topics. One per broker. Owned by the event loop."""

    def __init__(
        self,
        zk: ZkUtils,
        config: Callable[[], KafkaConfig],
        metadata: MetadataView,
        waiter: MetadataWaiter,
        rng: random.Random | None = None,
    ) -> None:
        """`config` gives the settings in force.

        `waiter` is notified after each update of `metadata`.
        """
        self._zk = zk
        self._config = config
        self._metadata = metadata
        self._waiter = waiter
        self._rng = rng or random.Random()
        self._auto_creations: dict[str, asyncio.Task[ErrorCode]] = {}
        self._large = asyncio.Lock()  # one request for very many partitions at a time
        self._told: str | None = None
        self._is_closed = False

    async def create_topics(
        self,
        topics: Sequence[CreateTopicsRequest.CreatableTopic],
        timeout_ms: int,
        validate_only: bool,
        twice: Container[str] = (),
        count: CountPartitions = _count_none,
    ) -> list[TopicResult]:
        """Create topics; one result per entry, in order. `twice` are those that are named again."""
        results = [TopicResult(name=topic.name) for topic in topics]
        is_large = sum(map(self._asked, topics)) > MAX_PARTITIONS_AT_ONCE
        try:
            # Topics that are checked but not written take memory: 20 MB for the largest.
            async with self._large if is_large else nullcontext():
                new = await self._look([topic.name for topic in topics])
                await self._check(
                    topics, results, new, twice, _count_none if validate_only else count
                )
                if not validate_only:
                    await new.write()
        except TreeUnavailableError as error:
            for result in results:
                if result.error is ErrorCode.NONE:
                    result.refuse(not_controller_refusal(error))
        if not validate_only:
            await self._wait(results, self._is_led, timeout_ms)
        return results

    async def auto_create(self, topics: Iterable[str]) -> dict[str, ErrorCode]:
        """Create the topics that do not exist; NONE for a topic that is usable now.

        Callers that ask for one topic at the same time share one creation. Of many topics a few are
        begun in each turn of the loop.
        """
        results = dict.fromkeys(topics, ErrorCode.LEADER_NOT_AVAILABLE)
        tasks: dict[str, asyncio.Task[ErrorCode]] = {}
        for number, name in enumerate(results):
            if number and number % _TOPICS_PER_TURN == 0:
                await turn()
            if self._is_closed:
                break
            tasks[name] = self._auto_creation(name)
        for name, task in tasks.items():
            results[name] = await asyncio.shield(task)
        return results

    async def delete_topics(self, names: Sequence[str], timeout_ms: int) -> list[TopicResult]:
        """Delete topics; one result per entry, in order."""
        results, wanted = [], []
        for number, name in enumerate(names, start=1):
            result = TopicResult(name=name)
            results.append(result)
            if self._metadata.contains_topic(name):
                wanted.append(result)
            else:
                result.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if number % _LOOKS_PER_TURN == 0:
                await turn()
        try:
            for refusal in await self._zk.create_delete_topics([r.name for r in wanted]):
                if refusal is not None and not isinstance(refusal, NodeExistsError):
                    raise refusal  # a topic in the list is already being deleted
        except TreeUnavailableError as error:
            for result in wanted:
                result.refuse(not_controller_refusal(error))
        await self._wait(wanted, self._is_gone, timeout_ms)
        deleted = [result.name for result in wanted if result.error is ErrorCode.NONE]
        with suppress(TimeoutError, TreeUnavailableError):
            async with asyncio.timeout(min(timeout_ms, NAME_FREE_TIMEOUT_MS) / 1000):
                for name in sorted(await self._zk.existing_topics(deleted)):
                    await self._zk.topic_gone(name)
        return results

    async def create_partitions(
        self,
        topics: Sequence[CreatePartitionsRequest.CreatePartitionsTopic],
        timeout_ms: int,
        validate_only: bool,
        twice: Container[str] = (),
        count: CountPartitions = _count_none,
    ) -> list[TopicResult]:
        """Add partitions; one result per topic. A topic named twice is refused; `twice` are the
        topics that another entry names too.
        """
        counts = Counter(topic.name for topic in topics)
        by_name = {topic.name: topic for topic in topics}
        results = []
        for number, (name, topic) in enumerate(by_name.items(), start=1):
            result = TopicResult(name=name)
            results.append(result)
            if number % _TOPICS_PER_TURN == 0:
                await turn()
            if counts[name] > 1 or name in twice:
                result.error = ErrorCode.INVALID_REQUEST
                result.message = "Duplicate topic in request."
                continue
            try:
                await self._grow(topic, result, validate_only, count)
            except KafkaError as error:
                result.refuse(error)
            except TreeUnavailableError as error:
                result.refuse(not_controller_refusal(error))
        if not validate_only:
            await self._wait(results, self._is_led, timeout_ms)
        return results

    async def wait_for_leaders(
        self, leaders: Mapping[TopicPartition, int], timeout_ms: int
    ) -> list[TopicPartition]:
        """Wait until this broker's metadata shows these leaders.

        Returns the partitions for which the time was too short.
        """

        def late() -> list[TopicPartition]:
            return [p for p, leader in leaders.items() if self._leader(p) != leader]

        await self._waiter.wait_until(lambda: not late(), timeout_ms)
        return late()

    async def close(self) -> None:
        """Give up automatic creations that are under way, and begin none."""
        self._is_closed = True
        tasks = list(self._auto_creations.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- creating

    async def _check(
        self,
        topics: Sequence[CreateTopicsRequest.CreatableTopic],
        results: list[TopicResult],
        new: NewTopics,
        twice: Container[str],
        count: CountPartitions,
    ) -> None:
        """Add to `new` the topics that can be created, and refuse the rest."""
        counts = Counter(topic.name for topic in topics)
        described: Described = {}
        partitions = since_turn = 0
        for topic, result in zip(topics, results, strict=True):
            asked = self._asked(topic)
            partitions += asked
            since_turn += asked + _PARTITIONS_PER_TURN // _TOPICS_PER_TURN
            try:
                if counts[topic.name] > 1 or topic.name in twice:
                    message = "Found multiple entries for this topic."
                    raise KafkaError(ErrorCode.INVALID_REQUEST, message)
                if partitions > MAX_PARTITIONS_IN_ALL:
                    raise too_many_partitions()
                self._prepare(topic, result, new, described)
                new.count_last(count)
            except KafkaError as error:
                result.refuse(error)
            if since_turn >= _PARTITIONS_PER_TURN:
                since_turn = 0
                await turn()

    def _asked(self, topic: CreateTopicsRequest.CreatableTopic) -> int:
        """The number of partitions of a topic, if it is not refused because of their number."""
        count = topic.num_partitions
        if topic.assignments:
            count = len(topic.assignments)
        if count == _ASK_DEFAULT:
            return self._config().log.num_partitions
        return count if 0 < count <= MAX_PARTITIONS_AT_ONCE else 0

    def _prepare(
        self,
        topic: CreateTopicsRequest.CreatableTopic,
        result: TopicResult,
        new: NewTopics,
        described: Described,
    ) -> None:
        name = topic.name
        if self._metadata.contains_topic(name):
            raise topic_exists(name)
        check_count(topic.configs)
        given = {config.name: config.value for config in topic.configs}
        nulls = [key for key, value in given.items() if value is None]
        if nulls:
            message = f"Null value not supported for topic configs: {','.join(nulls)}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        overrides = {key: value for key, value in given.items() if value is not None}
        assignment = self._assignment(topic, new)
        new.add(result, assignment, overrides)
        result.replication_factor = len(assignment[0])
        key = tuple(sorted(overrides.items()))
        if key not in described:
            described[key] = describe_topic(self._config(), overrides)
        result.configs = described[key]

    def _assignment(
        self, topic: CreateTopicsRequest.CreatableTopic, new: NewTopics
    ) -> dict[int, list[int]]:
        if topic.assignments:
            if (topic.num_partitions, topic.replication_factor) != (_ASK_DEFAULT, _ASK_DEFAULT):
                message = (
                    "Both numPartitions or replicationFactor and replicasAssignments were set. "
                    "Both cannot be used at the same time."
                )
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            check_partitions_at_once(len(topic.assignments))
            return {a.partition_index: list(a.broker_ids) for a in topic.assignments}
        config = self._config()
        partitions, factor = topic.num_partitions, topic.replication_factor
        return new.spread(
            config.log.num_partitions if partitions == _ASK_DEFAULT else partitions,
            config.replication.default_replication_factor if factor == _ASK_DEFAULT else factor,
        )

    # ---- automatic creation

    def _auto_creation(self, name: str) -> asyncio.Task[ErrorCode]:
        task = self._auto_creations.get(name)
        if task is None:
            task = asyncio.create_task(self._auto_create(name), name=f"create topic {name}")
            self._auto_creations[name] = task
            task.add_done_callback(lambda _: self._auto_creations.pop(name, None))
        return task

    async def _look(self, names: Sequence[str]) -> NewTopics:
        protocol = self._config().server.inter_broker_protocol_version
        return await NewTopics.look(self._zk, self._rng, names, gives_ids=gives_topic_ids(protocol))

    async def _auto_create(self, name: str) -> ErrorCode:
        result = TopicResult(name=name)
        if not self._metadata.contains_topic(name):
            try:
                await self._create_missing(result)
            except KafkaError as error:
                if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:  # it is being deleted
                    return ErrorCode.LEADER_NOT_AVAILABLE
                self._tell_operator(name, error)
                return error.code
            except TreeUnavailableError as error:
                _log.warning("topic %s cannot be created now: %s", name, error)
                return ErrorCode.LEADER_NOT_AVAILABLE  # clients ask again
        if self._is_led(result):
            return ErrorCode.NONE
        usable = await self._waiter.wait_until(lambda: self._is_led(result), AUTO_CREATE_TIMEOUT_MS)
        return ErrorCode.NONE if usable else ErrorCode.LEADER_NOT_AVAILABLE

    async def _create_missing(self, result: TopicResult) -> None:
        name = result.name
        validate_topic_name(name)
        new = await self._look([name])
        wanted = new_topic(name, self._config(), len(new.racks))
        assignment = new.spread(wanted.num_partitions, wanted.replication_factor)
        try:
            new.add(result, assignment, wanted.overrides)
            await new.write()
            if result.error is not ErrorCode.NONE:
                raise KafkaError(result.error, result.message)
        except KafkaError as error:
            is_there = error.code is ErrorCode.TOPIC_ALREADY_EXISTS  # made by another broker
            if not is_there or await self._zk.is_marked_for_deletion(name):
                raise
            result.num_partitions = UNKNOWN_COUNT
        else:
            if wanted.note is not None:
                _log.warning("%s", wanted.note)

    def _tell_operator(self, name: str, error: KafkaError) -> None:
        """Log once what no client can repair."""
        if error.code is ErrorCode.INVALID_REPLICATION_FACTOR and error.message != self._told:
            self._told = error.message
            setting = _FACTOR_SETTINGS.get(name, "default.replication.factor")
            _log.warning("topic %s is not created: %s See %s", name, error.message, setting)

    # ---- growing

    async def _grow(
        self,
        topic: CreatePartitionsRequest.CreatePartitionsTopic,
        result: TopicResult,
        validate_only: bool,
        count: CountPartitions,
    ) -> None:
        for _ in range(MAX_CONFLICTS):
            found = await self._zk.topic_node(topic.name)
            if found is None:
                raise _unknown(topic.name)
            current, version = found
            grown = await self._grown(topic, current)
            result.num_partitions = topic.count
            if validate_only:
                return
            count(topic.count - len(current.partitions))
            count = _count_none
            try:
                await self._zk.grow_topic(topic.name, grown, version)
            except BadVersionError:
                continue  # the topic has been grown, or reassigned, meanwhile
            except NoNodeError as error:
                raise _unknown(topic.name) from error
            except NodeTooLargeError as error:
                raise topic_too_large(topic.name, error, topic.count) from error
            return
        message = f"The topic '{topic.name}' keeps changing. Ask again."
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)

    async def _grown(
        self, topic: CreatePartitionsRequest.CreatePartitionsTopic, current: TopicAssignment
    ) -> TopicAssignment:
        if not current.partitions:
            raise _unknown(topic.name)
        if any(a.adding_replicas or a.removing_replicas for a in current.partitions.values()):
            message = f"A partition reassignment is in progress for the topic '{topic.name}'."
            raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
        validate_increase(len(current.partitions), topic.count)
        added = await self._added(topic, current)
        return replace(current, partitions=current.partitions | shared_assignments(added))

    async def _added(
        self,
        topic: CreatePartitionsRequest.CreatePartitionsTopic,
        current: TopicAssignment,
    ) -> dict[int, list[int]]:
        brokers = {b.broker_id: b.rack for b in await self._zk.all_brokers()}
        existing = len(current.partitions)
        first = current.partitions[0].replicas
        if topic.assignments is not None:
            check_partitions_at_once(len(topic.assignments))
            given = [list(a.broker_ids) for a in topic.assignments]
            added = dict(enumerate(given, start=existing))
            validate_added_assignments(added, topic.count - existing, brokers, len(first))
            return added
        # Start from the topic's first partition, so that old and new partitions spread as one.
        ids = sorted(brokers)
        start = next((i for i, b in enumerate(ids) if first and b >= first[0]), 0)
        spread = SpreadStart(start, start)
        return assign_replicas(brokers, topic.count - existing, len(first), spread, existing)

    # ---- waiting

    async def _wait(
        self,
        results: Sequence[TopicResult],
        is_done: Callable[[TopicResult], bool],
        timeout_ms: int,
    ) -> None:
        pending = [r for r in results if r.error is ErrorCode.NONE]
        late = pending.copy()

        def are_done() -> bool:
            """Whether each one is done; one that was is not looked at again."""
            while late and is_done(late[-1]):
                late.pop()
            return not late

        if timeout_ms > 0:
            await self._waiter.wait_until(are_done, timeout_ms)
            pending = [r for r in pending if not is_done(r)]
        for result in pending:  # with no time to wait Kafka does not even look
            result.error = ErrorCode.REQUEST_TIMED_OUT

    def _is_led(self, result: TopicResult) -> bool:
        for partition in range(max(result.num_partitions, 1)):
            state = self._metadata.partition_state(TopicPartition(result.name, partition))
            if state is None or state.leader == NO_LEADER:
                return False
        return True

    def _leader(self, partition: TopicPartition) -> int:
        state = self._metadata.partition_state(partition)
        return NO_LEADER if state is None else state.leader

    def _is_gone(self, result: TopicResult) -> bool:
        return not self._metadata.contains_topic(result.name)


def _unknown(name: str) -> KafkaError:
    message = f"The topic '{name}' does not exist."
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
