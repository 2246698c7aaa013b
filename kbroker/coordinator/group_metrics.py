"""Measures of the groups and transactional ids that a broker coordinates: how many there are in
which state, what groups have committed, and how far they are behind.

A group's lag is known for the partitions of which the end is known. They walk through groups when
somebody looks.

Owned by the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from kbroker.coordinator.group.coordinated_group import CoordinatedGroup
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.store import GroupStore
from kbroker.coordinator.group_kinds import CLASSIC, CONSUMER, ConsumerGroupState
from kbroker.coordinator.transaction.store import TransactionStore
from kbroker.coordinator.transaction.transaction import TransactionState
from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, Row, Table
from kbroker.model import TopicPartition

_BREATH = 64  # entries that are looked at in a step without a row
_STATES = tuple(GroupState)
_REBALANCES = Metric(
    MetricName("kafka.server", "group-coordinator-metrics", "consumer-group-rebalance"),
    Kind.COUNTER,
)
_TRANSACTION_STATES = tuple(TransactionState)

EndOf = Callable[[TopicPartition], int | None]
"""Says at which offset the records of a partition end that consumers read, None if unknown here."""


class GroupMetrics:
    """The measures of one broker's groups."""

    def __init__(self, store: GroupStore, end_of: EndOf) -> None:
        self._store = store
        self._end_of = end_of

    def register(self, counters: CounterRegistry) -> None:
        """Register all of these under their names."""
        kind = "kafka.coordinator.group", "GroupMetadataManager"
        names = ("NumGroups", "NumOffsets", *(f"NumGroups{state.value}" for state in _STATES))
        counters.add_table(Table(_gauges(*kind, *names), (), self._sums))
        kind = "kafka.server", "group-coordinator-metrics"
        for name, tag, rows in (
            ("group-count", "protocol", self._by_protocol),
            ("consumer-group-count", "state", self._consumer_states),
        ):
            counters.add_table(Table(_gauges(*kind, name), (tag,), rows))
        counters.add_table(Table((_REBALANCES,), (), self._rebalances))
        group, topic, partition = "consumergroup", "topic", "partition"
        for name, tags, rows in (
            ("consumergroup_members", (group,), self._members),
            ("consumergroup_current_offset", (group, topic, partition), self._offsets),
            ("consumergroup_lag", (group, topic, partition), self._lags),
            ("consumergroup_current_offset_sum", (group, topic), self._offset_sums),
            ("consumergroup_lag_sum", (group, topic), self._lag_sums),
        ):
            counters.add_table(Table(_gauges("kafka", "", name), tags, rows))

    def _sums(self) -> Iterator[Row | None]:
        states: Counter[str] = Counter()  # of classic groups, as Kafka's names mean these
        offsets = 0
        for number, group in enumerate(_groups(self._store), 1):
            if group.kind == CLASSIC:
                states[group.state] += 1
            offsets += len(group.offsets.committed)
            if number % _BREATH == 0:
                yield None
        yield (), (states.total(), offsets, *(states[state.value] for state in _STATES))

    def _by_protocol(self) -> Iterator[Row | None]:
        kinds: Counter[str] = Counter()
        for number, group in enumerate(_groups(self._store), 1):
            kinds[group.kind] += 1
            if number % _BREATH == 0:
                yield None
        for kind in (CLASSIC, CONSUMER):
            yield (kind,), (kinds[kind],)

    def _consumer_states(self) -> Iterator[Row | None]:
        states: Counter[str] = Counter()
        for group in _groups(self._store):
            if group.kind == CONSUMER:
                states[group.state] += 1
            yield None
        for state in ConsumerGroupState:
            yield (state.value,), (states[state.value],)

    def _rebalances(self) -> Iterator[Row | None]:
        yield (), (self._store.happened["group_epoch"],)

    def _members(self) -> Iterator[Row | None]:
        for group in _groups(self._store):
            yield (group.group_id,), (group.member_count,)

    def _offsets(self) -> Iterator[Row | None]:
        for group_id, (topic, index), offset in committed_places(self._store):
            yield (group_id, topic, str(index)), (offset,)

    def _lags(self) -> Iterator[Row | None]:
        for group in _groups(self._store):
            for number, (place, offset) in enumerate(_committed(group), 1):
                end = self._end_of(place)
                if end is not None:
                    yield (
                        (group.group_id, place.topic, str(place.partition)),
                        (max(0, end - offset),),
                    )
                elif number % _BREATH == 0:
                    yield None

    def _offset_sums(self) -> Iterator[Row | None]:
        for group in _groups(self._store):
            sums: Counter[str] = Counter()
            for number, (place, offset) in enumerate(_committed(group), 1):
                sums[place.topic] += offset
                if number % _BREATH == 0:
                    yield None
            for topic, total in sums.items():
                yield (group.group_id, topic), (total,)

    def _lag_sums(self) -> Iterator[Row | None]:
        for group in _groups(self._store):
            sums: Counter[str] = Counter()
            for number, (place, offset) in enumerate(_committed(group), 1):
                end = self._end_of(place)
                if end is not None:
                    sums[place.topic] += max(0, end - offset)
                if number % _BREATH == 0:
                    yield None
            for topic, total in sums.items():
                yield (group.group_id, topic), (total,)


class TransactionMetrics:
    """The measures of one broker's transactional ids."""

    def __init__(self, store: TransactionStore) -> None:
        self._store = store

    def register(self, counters: CounterRegistry) -> None:
        """Register all of these under their names."""
        kind = "kbroker.coordinator.transaction", "TransactionStateManager"
        table = Table(_gauges(*kind, "NumTransactionalIds"), ("state",), self._by_state)
        counters.add_table(table)

    def _by_state(self) -> Iterator[Row | None]:
        states: Counter[TransactionState] = Counter()
        for number, kept in enumerate(self._store, 1):
            states[kept.entry.transaction.state] += 1
            if number % _BREATH == 0:
                yield None
        for state in _TRANSACTION_STATES:
            yield (state.label,), (states[state],)


def committed_places(store: GroupStore) -> Iterator[tuple[str, TopicPartition, int]]:
    """Walk through what groups have committed: group, partition and offset. Groups may come and go
    meanwhile.
    """
    for group in _groups(store):
        for place, offset in _committed(group):
            yield group.group_id, place, offset


def _groups(store: GroupStore) -> Iterator[CoordinatedGroup]:
    for coordinated in store:
        found = store.find(coordinated.group_id)
        if found is not None:
            yield found


def _committed(group: CoordinatedGroup) -> Iterator[tuple[TopicPartition, int]]:
    committed = group.offsets.committed
    for place in committed.stored_keys():
        value = committed.stored(place)
        if value is not None:
            yield place, value.offset


def _gauges(group: str, kind: str, *names: str) -> tuple[Metric, ...]:
    return tuple(Metric(MetricName(group, kind, name), Kind.GAUGE) for name in names)
