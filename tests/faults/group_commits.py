"""What members of a group commit, in transactions and without, and a ledger of it.

Laws: what was acknowledged is not lost and does not go back; who does not have a partition any more
commits nothing for it once another member reads it; offsets of topics that members follow stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any

from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.group.coordinated_consumer_group import CoordinatedConsumerGroup
from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import NO_OFFSET, CommittedOffset
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.record.record_batch import ControlRecord
from tests.faults.group_clients import GROUP, Client, Place, Sent

if TYPE_CHECKING:
    from tests.fakes.brokers.group_broker import GroupBroker
    from tests.faults.group_simulation import GroupHistory

_REFUSED = {  # before anything is written
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
_VERSION = 9
_TIMES_AS_LATE = 5  # as heartbeats, to come when another member reads
_PARTITION = 0  # of `__consumer_offsets`


class Fate(Enum):
    """What is known of one commit."""

    OPEN = "open"  # it counts if its transaction does
    POSSIBLE = "possible"
    SURE = "sure"  # it was acknowledged


class Story:
    """The commits of one partition in the order in which the coordinator got them."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.age = 0  # times that everything may have been forgotten
        self.may_be_gone = True  # nothing was acknowledged since

    def allows(self, offset: int) -> bool:
        """Whether this can be what is committed now."""
        if offset == NO_OFFSET:
            return self.may_be_gone
        for commit in reversed(self.commits):
            if commit.fate is not Fate.OPEN and commit.offset == offset:
                return True
            if commit.fate is Fate.SURE and commit.age == self.age:
                return False
        return False

    def forgotten(self) -> None:
        """All of it may be gone, or there still."""
        self.may_be_gone = True
        self.age += 1


class Commit:
    """An offset that the coordinator may have stored."""

    def __init__(self, story: Story, offset: int, *, in_transaction: bool) -> None:
        self.story, self.offset, self.age = story, offset, story.age
        self.fate = Fate.OPEN if in_transaction else Fate.POSSIBLE
        self.is_acknowledged = False
        self._in_transaction = in_transaction
        story.commits.append(self)

    def acknowledged(self) -> None:
        self.is_acknowledged = True
        if not self._in_transaction:
            self.counts()

    def counts(self) -> None:
        """Count as committed: acknowledged, as was the end of its transaction if it is in one."""
        self.fate = Fate.SURE
        if self.age == self.story.age:
            self.story.may_be_gone = False


@dataclass(eq=False)
class Transaction:
    """Commits that count together, once a marker says so."""

    producer: Producer
    is_commit: bool
    commits: list[Commit]
    ending: asyncio.Future[ErrorCode] | None = None  # the answer to the marker that was sent last


class Commits:
    """The commits of one history."""

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._stories: dict[TopicPartition, Story] = {}
        self._reading: dict[Place, int] = {}  # the number of the reading that began last
        self._began: dict[tuple[Client, Place], int] = {}
        self._numbers = count(1)
        self._waiting: list[tuple[asyncio.Future[list[ErrorCode]], list[Commit]]] = []
        self.transactions: list[Transaction] = []

    def _story(self, name: TopicPartition) -> Story:
        return self._stories.setdefault(name, Story())

    # ---- what clients do

    def look_up(self, client: Client) -> None:
        """Ask for the offsets of partitions that a client has and does not read yet."""
        broker = self._history.broker
        offsets = broker.groups.offsets
        try:
            offsets.check_reader(GROUP, client.member_id, client.epoch)
            for place in sorted(client.has - client.positions.keys()):
                name = _name(broker, place)
                if name is not None:
                    ((_, found),) = offsets.fetch(GROUP, [name], True)
                    self._found(client, place, name, found)
        except KafkaError:
            return

    def _found(self, client: Client, place: Place, name: TopicPartition, found: Any) -> None:
        if found.error is not ErrorCode.NONE:
            return
        allowed = self._story(name).allows(found.offset)
        assert allowed, f"a reader of {name} finds {found.offset}, which is lost or went back"
        client.positions[place] = max(0, found.offset)
        self._reading[place] = self._began[client, place] = next(self._numbers)
        self._history.tell(f"{client.name} reads {name} from {found.offset}")

    def commit(self, client: Client) -> None:
        """Read on and say how far."""
        random = self._history.random
        if not client.positions:
            return
        places = sorted(client.positions)
        places = random.sample(places, random.randint(1, len(places)))
        for place in places:
            client.positions[place] += random.randint(1, 5)
        transaction = None
        if random.random() < 0.25:
            producer = Producer(next(self._numbers), 0)
            transaction = Transaction(producer, random.random() < 0.7, [])
            self.transactions.append(transaction)
        at = {place: client.positions[place] for place in places}
        sent = Sent(client, client.epoch, self._delivery(client, at, transaction))
        self._history.line.send(sent, _TIMES_AS_LATE)

    def _delivery(
        self, client: Client, at: dict[Place, int], transaction: Transaction | None
    ) -> Callable[[], Any]:
        broker = self._history.broker
        began = {place: self._began.get((client, place), 0) for place in at}
        committer = Committer(GROUP, client.member_id, client.instance_id, client.epoch, _VERSION)

        def deliver() -> Any:
            named = {place: name for place in at if (name := _name(broker, place)) is not None}
            if not named or (transaction is not None and transaction.ending is not None):
                return [ErrorCode.UNKNOWN_TOPIC_ID]
            member = _member(broker, committer.member_id)
            offsets = {name: at[place] for place, name in named.items()}
            outcome = _send(broker, committer, offsets, transaction)
            if isinstance(outcome, list) and outcome[0] in _REFUSED:
                self._history.tell(f"{client.name} commits in vain: {outcome[0].name}")
                return outcome
            if member is not None and committer.generation_id < member.epoch:
                _held_by_then(member, committer.generation_id, named)
                late = [place for place in named if began[place] < self._reading.get(place, 0)]
                assert not late, f"{client.name} commits what another member reads"
            self._history.tell(f"{client.name} commits {_short(offsets)} {_of(transaction)}")
            commits = [
                Commit(self._story(name), at[place], in_transaction=transaction is not None)
                for place, name in named.items()
            ]
            if transaction is not None:
                transaction.commits += commits
            return self._note(outcome, commits)

        return deliver

    def _note(self, outcome: Any, commits: list[Commit]) -> Any:
        if isinstance(outcome, list):
            _acknowledge(outcome, commits)
            return outcome
        answer = asyncio.ensure_future(outcome)
        self._waiting.append((answer, commits))
        return answer

    # ---- what comes of it

    def take_answers(self) -> None:
        """Answers to commits have come, and those to markers."""
        for answer, commits in [each for each in self._waiting if each[0].done()]:
            self._waiting.remove((answer, commits))
            _acknowledge(answer.result(), commits)
        for transaction in list(self.transactions):
            ending = transaction.ending
            if ending is not None and ending.done() and ending.result() is ErrorCode.NONE:
                self.transactions.remove(transaction)
                for commit in transaction.commits if transaction.is_commit else ():
                    if commit.is_acknowledged:
                        commit.counts()

    def end_transaction(self) -> None:
        """A transaction coordinator has a marker written, again until that has worked."""
        open_ones = [
            each for each in self.transactions if each.ending is None or each.ending.done()
        ]
        if not open_ones:
            return
        transaction = self._history.random.choice(open_ones)
        for commit in transaction.commits if transaction.is_commit else ():
            if commit.fate is Fate.OPEN:
                commit.fate = Fate.POSSIBLE
        outcome = self._history.broker.groups.end_transaction(
            _PARTITION, transaction.producer, ControlRecord(transaction.is_commit, 0)
        )
        self._history.tell(f"{_of(transaction)} is to end, commit: {transaction.is_commit}")
        transaction.ending = _future(outcome)

    def gone(self, partitions: Iterable[TopicPartition]) -> None:
        """A coordinator heard that partitions are gone, and forgets their offsets."""
        for name in partitions:
            self._story(name).forgotten()

    def all_gone(self) -> None:
        """The group was deleted, or may have been."""
        self.gone(list(self._stories))

    def killed(self) -> None:
        """Forget who waits: the broker is gone."""
        self._waiting.clear()
        for transaction in self.transactions:
            if transaction.ending is not None and not transaction.ending.done():
                transaction.ending = _future(ErrorCode.NOT_COORDINATOR)

    def check(self) -> None:
        """Hold what the coordinator has against what was acknowledged."""
        store = self._history.broker.groups.store
        if store.runtime.status(GROUP) is not ErrorCode.NONE:
            return
        found = store.find(GROUP)
        for name, story in self._stories.items():
            if found is None or found.is_empty or not found.follows(name.topic):
                story.forgotten()
            value = None if found is None else found.offsets.committed.get(name)
            offset = NO_OFFSET if value is None else value.offset
            assert story.allows(offset), f"{name}: {offset} is committed, others were acknowledged"


def _of(transaction: Transaction | None) -> str:
    return "" if transaction is None else f"transaction {transaction.producer.producer_id}"


def _short(offsets: dict[TopicPartition, int]) -> str:
    return ", ".join(f"{name.topic}-{name.partition}: {at}" for name, at in offsets.items())


def _acknowledge(codes: list[ErrorCode], commits: list[Commit]) -> None:
    if codes[0] is ErrorCode.NONE:
        for commit in commits:
            commit.acknowledged()


def _send(
    broker: GroupBroker,
    committer: Committer,
    at: dict[TopicPartition, int],
    transaction: Transaction | None,
) -> Any:
    now_ms = broker.time.now_ms()
    entries = [
        (name, CommittedOffset(offset=offset, commit_timestamp_ms=now_ms))
        for name, offset in at.items()
    ]
    offsets = broker.groups.offsets
    if transaction is None:
        return offsets.commit(committer, entries)
    return offsets.commit_in_transaction(committer, transaction.producer, entries)


def _future(outcome: Any) -> asyncio.Future[Any]:
    if isinstance(outcome, ErrorCode):
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(outcome)
        return future
    return asyncio.ensure_future(outcome)


def _name(broker: GroupBroker, place: Place) -> TopicPartition | None:
    """The name of a partition as this broker knows it."""
    topic = broker.metadata.topic_name(place[0])
    return None if topic is None else TopicPartition(topic, place[1])


def _member(broker: GroupBroker, member_id: str) -> Member | None:
    found = broker.groups.store.find(GROUP)
    if not isinstance(found, CoordinatedConsumerGroup):
        return None
    return found.group.members.get(member_id)


def _held_by_then(member: Member, epoch: int, places: Iterable[Place]) -> None:
    """An older epoch is good for what a member has had since then."""
    for topic_id, index in places:
        held = [each.get(topic_id, {}).get(index) for each in (member.assigned, member.revoking)]
        since = [each for each in held if each is not None]
        assert since, f"{member.member_id} commits in {epoch} what it does not have"
        assert min(since) <= epoch, f"{member.member_id} commits in {epoch} what it got later"
