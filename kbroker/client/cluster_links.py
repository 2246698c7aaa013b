"""The brokers of a cluster as a command sees them: open links by broker, and the leaders of topics.

Law: any broker may be asked, so one that is gone costs nothing while another answers. OSError means
that none answers.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kbroker.client.bootstrap import addresses_of, check_reachable, option_of, settings_of
from kbroker.client.broker_link import BrokerLink
from kbroker.client.client_error import ClientError, unanswered
from kbroker.client.denials import Denial, denials_in
from kbroker.client.link_refusals import refused
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import NO_CONTROLLER, NO_LEADER, ZERO_UUID
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.schema import Message

EARLIEST, LATEST = -2, -1
_QUESTION_S = 5.0
_ANSWER_S = 25.0
_PATIENCE_S = 5.0
_SAID_AFTER_S = 1.0  # an election takes no longer
_FAILOVER_S = 30.0  # a killed leader leads until its session of ZooKeeper ends, after 18 s
_PAUSE_S = 0.1
_DENIALS_KEPT = 4  # more than a person reads


class _NoLeaderError(OSError):
    """A partition that has no leader now."""


class GivenAddressError(ConnectionRefusedError):
    """An address that brokers advertise cannot be reached: nothing was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic as a broker described it; `leaders` by partition, NO_LEADER if there is none."""

    name: str
    code: ErrorCode
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    leaders: Mapping[int, int]

    @property
    def is_ready(self) -> bool:
        return self.code == ErrorCode.NONE and NO_LEADER not in self.leaders.values()


class ClusterLinks:
    """Opens links when they are needed and keeps them; owned by one thread.

    Questions have links of their own, so that they need not wait for records.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        tell: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`tell` gets a sentence about each wait that takes more than a moment.

        Raises ClientError if no broker lets us in at `bootstrap`: HOST:PORT[,HOST:PORT ...], as a
        `Bootstrap` if that needs TLS or a login.
        """
        check_reachable(bootstrap, option_of(bootstrap))
        self.bootstrap = bootstrap
        self._settings = settings_of(bootstrap)
        self._tell = tell
        self.sleep = sleep
        self._nodes: dict[int, tuple[str, int]] = {}
        self._controller_id = NO_CONTROLLER
        self._links: dict[tuple[str, int], BrokerLink] = {}
        self._asking: dict[tuple[str, int], BrokerLink] = {}
        self._repeated: Message | None = None
        self.silent: dict[int, Exception] = {}  # brokers whose last answer did not come, and why
        self.denials: dict[Denial, None] = {}  # for lack of a right; the first ones
        try:
            self.describe([])
        except TimeoutError as error:
            raise unanswered(bootstrap, error) from error
        except OSError as error:
            raise refused(bootstrap, str(error).removeprefix(f"{bootstrap}: ")) from error

    def describe(self, names: Collection[str] | None, *, creates: bool = False) -> MetadataResponse:
        """Return brokers, controller, and topics by name, or all for None; `creates`: brokers that
        create topics at their first use create the missing ones.

        Raises OSError if no broker answers.
        """
        wanted = None
        if names is not None:
            wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        ask = MetadataRequest(topics=wanted, allow_auto_topic_creation=creates)
        answer: MetadataResponse = self.ask_any(ask)
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._controller_id = answer.controller_id
        return answer

    def topic(self, name: str, *, creates: bool = False) -> TopicView:
        """Return a topic as it is now; `creates` as for `describe`.

        Raises OSError if no broker answers.
        """
        (view,) = self.topics([name], creates=creates)
        return view

    def topics(self, names: Collection[str] | None, *, creates: bool = False) -> list[TopicView]:
        """Return topics as they are now; None: all there are. Raises OSError as `topic` does."""
        return [_view(found) for found in self.describe(names, creates=creates).topics]

    def ready_topic(self, name: str, *, creates: bool = False) -> TopicView | None:
        """Return a topic whose partitions have leaders, after a wait if it is just being created.

        None if there is no such topic, not even for the controller, which knows new ones first.
        Raises ClientError, and OSError if no broker answers.
        """
        give_up_s = time.monotonic() + _PATIENCE_S
        while True:
            view = self.topic(name, creates=creates)
            if view.is_ready:
                return view
            is_unknown = view.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_unknown and not creates and not self._controller_knows(name):
                return None
            # A broker may be about to come back: Java's producer waits for it too.
            lacks_brokers = view.code == ErrorCode.INVALID_REPLICATION_FACTOR
            is_over = time.monotonic() > give_up_s
            if view.code and not view.code.retriable and (is_over or not lacks_brokers):
                raise ClientError(_refusal(name, view.code))
            if is_over:
                return view if view.leaders else None
            self.sleep(_PAUSE_S)

    def _controller_knows(self, name: str) -> bool:
        if len(self._nodes) < 2:
            return False
        topic = MetadataRequest.MetadataRequestTopic(name=name)
        ask = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
        try:
            answer = self._ask(self._address(self._controller_id), ask)
        except (OSError, ClientError):
            return False
        code: int = answer.topics[0].error_code
        return code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def link(self, node_id: int) -> BrokerLink:
        """Return the link to a broker. Raises OSError if it does not answer."""
        address = self._address(node_id)
        found = self._links.get(address)
        if found is not None and found.is_to_renew and not found.in_flight:
            found.close()
            found = None
        if found is None:
            found = self._links[address] = self._opened(address, _ANSWER_S)
        return found

    def lose(self, link: BrokerLink) -> None:
        """Close a link that is of no more use."""
        link.close()
        self._links = {at: other for at, other in self._links.items() if other is not link}

    def busy(self) -> list[BrokerLink]:
        return [link for link in self._links.values() if link.in_flight]

    def offsets(
        self,
        view: TopicView,
        partitions: Collection[int],
        moment: int,
        *,
        only_committed: bool = False,
        awaits_successor: bool = True,
    ) -> dict[int, int]:
        """Return offsets by partition at EARLIEST, LATEST, or Unix ms, -1 if no record is as late;
        `only_committed`: up to the first open transaction.

        A leader that is away is waited for, longer if another broker may take its place, unless
        `awaits_successor` is false, for callers that have other partitions to ask for meanwhile.

        Raises OSError, KafkaError, ClientError if one of the partitions has no leader.
        """
        began_s = time.monotonic()
        give_up_s = began_s + _PATIENCE_S
        may_follow = awaits_successor and len(self._nodes) > 1
        failover_s = began_s + (_FAILOVER_S if may_follow else 0)
        is_said = False
        while True:
            by_leader: defaultdict[int, list[int]] = defaultdict(list)
            for partition in partitions:
                by_leader[view.leaders.get(partition, NO_LEADER)].append(partition)
            try:
                return {
                    partition: offset
                    for leader, numbers in by_leader.items()
                    for partition, offset in self._offsets_of(
                        leader, view.name, numbers, (moment, only_committed)
                    )
                }
            except (OSError, KafkaError) as error:
                is_final = isinstance(error, KafkaError) and not error.code.retriable
                now_s = time.monotonic()
                if now_s < failover_s and not isinstance(error, (KafkaError, _NoLeaderError)):
                    give_up_s = now_s + _PATIENCE_S
                if is_final or now_s > give_up_s:
                    if isinstance(error, _NoLeaderError):
                        raise ClientError(str(error), trouble=Trouble.NO_LEADER) from error
                    raise _explain(error) from error
                if not is_said and now_s - began_s > _SAID_AFTER_S:
                    is_said = True
                    self._tell(f"the offsets of {view.name} cannot be had now: {error}; waiting")
            self.sleep(_PAUSE_S)
            view = self.topic(view.name)

    def ask_any(self, request: Message) -> Any:
        """Return the answer of any broker. Raises OSError if none answers."""
        last: OSError | None = None
        known = (*self._asking, *addresses_of(self.bootstrap), *self._nodes.values())
        for address in dict.fromkeys(known):
            try:
                return self._ask(address, request)
            except OSError as error:
                last = error
        assert last is not None, "an address is given"
        raise last

    def ask(self, node_id: int, request: Message) -> Any:
        """Return the answer of one broker; `silent` keeps those that gave none.

        Raises ConnectionRefusedError if the request was not even sent, OSError if no answer came,
        and ClientError if what listens there is no broker that we can use.
        """
        self.silent.pop(node_id, None)
        try:
            return self._ask(self._address(node_id), request)
        except (OSError, ClientError) as error:
            self.silent[node_id] = error
            raise

    def is_repeated(self, request: Message) -> bool:
        """Say whether this request, the last one, was sent twice: the broker may have obeyed the
        first, whose answer got lost.
        """
        return self._repeated is request

    def close(self) -> None:
        """Close the links of all brokers."""
        for link in (*self._links.values(), *self._asking.values()):
            link.close()

    def _address(self, node_id: int) -> tuple[str, int]:
        address = self._nodes.get(node_id)
        if address is None:
            raise ConnectionRefusedError(f"broker {node_id} is not there")
        return address

    def _ask(self, address: tuple[str, int], request: Message) -> Any:
        """Ask on an idle link, or on a new one if the broker has closed it."""
        if address in self._asking:
            try:
                return self._asking[address].ask(request)
            except OSError:
                self._asking.pop(address).close()
                self._repeated = request
        link = self._opened(address, _QUESTION_S)
        try:
            answer = link.ask(request)
        except OSError:
            link.close()
            raise
        self._asking[address] = link
        return answer

    def _opened(self, address: tuple[str, int], timeout_s: float) -> BrokerLink:
        """Open a link. Raises OSError and ClientError; if no person gave the address, they say
        which broker did.
        """
        try:
            link = BrokerLink(*address, timeout_s, self._settings)
            link.hear = self._hear
            return link
        except (OSError, ClientError) as error:
            brokers = [node_id for node_id, at in self._nodes.items() if at == address]
            if not brokers or address in set(addresses_of(self.bootstrap)):
                raise
            origin = f"({self.bootstrap} gives clients this address of broker {brokers[0]})"
            if isinstance(error, ClientError):
                sentence = f"{error.sentence} {origin}"
                raise ClientError(sentence, error.code, Trouble.ADVERTISED_ADDRESS) from error
            raise GivenAddressError(f"{error} {origin}") from error

    def _hear(self, request: Message | type[Message], answer: Any) -> None:
        for denial in denials_in(request, answer):
            if len(self.denials) < _DENIALS_KEPT:
                self.denials[denial] = None

    def _offsets_of(
        self, leader: int, topic: str, partitions: list[int], asked: tuple[int, bool]
    ) -> Iterator[tuple[int, int]]:
        if leader == NO_LEADER:
            raise _NoLeaderError(f"{topic}-{partitions[0]} has no leader: its broker is away")
        moment, only_committed = asked
        ask = offsets_request({topic: partitions}, moment, only_committed=only_committed)
        for entry in self._ask(self._address(leader), ask).topics[0].partitions:
            if entry.error_code:
                raise KafkaError(ErrorCode(entry.error_code), f"{topic}-{entry.partition_index}")
            yield entry.partition_index, entry.offset


def offsets_request(
    partitions: Mapping[str, Iterable[int]], moment: int, *, only_committed: bool
) -> ListOffsetsRequest:
    """Return the request for the offsets of partitions, by topic, as `ClusterLinks.offsets` asks
    for them.
    """
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=moment)
                for number in numbers
            ],
        )
        for name, numbers in partitions.items()
    ]
    return ListOffsetsRequest(replica_id=-1, isolation_level=int(only_committed), topics=topics)


def _view(found: MetadataResponse.MetadataResponseTopic) -> TopicView:
    leaders = {part.partition_index: part.leader_id for part in found.partitions}
    return TopicView(
        name=found.name or "",
        code=ErrorCode(found.error_code),
        topic_id=found.topic_id,
        is_internal=found.is_internal,
        leaders=dict(sorted(leaders.items())),
    )


def _explain(error: OSError | KafkaError) -> Exception:
    """Return a lasting error as one that says what it means, if we know."""
    if isinstance(error, KafkaError) and error.code == ErrorCode.OFFSET_NOT_AVAILABLE:
        return ClientError(
            unknown_end(str(error.message), error.code), trouble=Trouble.NOT_ENOUGH_REPLICAS
        )
    return error


def unknown_end(place: str, code: ErrorCode) -> str:
    """Return the sentence about a partition whose leader still does not know the end."""
    return (
        f"the end of {place} is not known since its leader changed ({code.name}): are fewer "
        "replicas in sync than min.insync.replicas asks for?"
    )


def _refusal(topic: str, code: ErrorCode) -> str:
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return (
            f"no topic can be named '{topic}': a name has up to 249 letters, digits, '.', '_' and "
            f"'-' of ASCII ({code.name})"
        )
    if code == ErrorCode.INVALID_REPLICATION_FACTOR:
        return (
            f"there is no topic {topic}, and it cannot be made: fewer brokers are there than "
            f"default.replication.factor asks for ({code.name}): start more, or make it with "
            f"`kbroker topic create {topic} --replication-factor N`"
        )
    return f"topic {topic} cannot be used: {code.name}"
