"""Who uses a simulated cluster with access rules: administrators that change them at several
brokers, clients whose requests show what is decided, and readers with sessions that stay.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from kbroker.acl.acl import (
    CLOSED,
    EVERYBODY,
    Acl,
    AclOperation,
    AclPattern,
    AclResource,
    Permission,
)
from kbroker.client.access_rules import creation_of, deletion_of
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.schema import Message
from tests.fakes.acls.acl_model import Question
from tests.fakes.clusters.replication_cluster import batch
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.requests.request_frames import frame_of, response_of
from tests.fakes.running.virtual_loop import VirtualLoop
from tests.faults.cluster_process import BrokerProcess, append
from tests.faults.rules_model import (
    CLUSTER,
    GROUP,
    PATTERNS,
    TOPIC,
    Decide,
    RulesModel,
    View,
    allows,
    allows_somewhere,
    view_of,
)
from tests.faults.rules_readers import Reader, fetch_of

ADMIN = "User:admin"
READER = "User:ann"
CLIENTS = (READER, "User:bob", "User:admin2")
ADDRESSES = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
TOPICS = ("t", "tt", "u")
_HOSTS = ("*", "*", "127.0.0.1", "0:0:0:0:0:0:0:1")
_OPERATIONS = (
    AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE,
    AclOperation.DELETE, AclOperation.DESCRIBE, AclOperation.IDEMPOTENT_WRITE,
)  # fmt: skip
_EVERY_TOPIC = PATTERNS.index(AclPattern(TOPIC, "*"))
_THE_CLUSTER = AclResource(CLUSTER, "kafka-cluster")
_PATIENCE_S = 60.0
_LONG_WAIT_MS = 5_000
_A_MOMENT_S = 0.0005  # so that what was decided by before is told from what is now
_UNDECIDED = {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}
_FIRST = (  # what is allowed from the beginning, until somebody takes it back
    ("User:ann", AclOperation.ALL, (3, 5, 8)),
    ("User:bob", AclOperation.READ, (4, 5)),
    ("User:bob", AclOperation.WRITE, (2, 6)),
    ("User:*", AclOperation.CREATE, (0, 4)),
)


class Asked(NamedTuple):
    """A request, and what it needs: one of the wishes of each row, whose refusal is there."""

    request: Message
    version: int
    rows: tuple[tuple[tuple[tuple[Decide, AclOperation, AclResource], ...], int], ...]
    codes: Callable[[Any], list[int]]  # by row
    is_forwarded: bool = False


class RulesClients:
    """Each method does one thing at a broker that runs."""

    def __init__(self, random: Random, loop: VirtualLoop, model: RulesModel) -> None:
        self._random = random
        self.loop = loop
        self.model = model
        self.counts: Counter[str] = Counter()
        self._readers: list[Reader] = []

    # ---- administrators

    def change(self, process: BrokerProcess) -> None:
        """Add some rules, or take some back."""
        random = self._random
        chosen = [self._rule() for _ in range(random.choice((1, 1, 2, 3)))]
        there = [
            (number, acl)
            for number, versions in enumerate(self.model.versions)
            if versions[-1][1] != frozenset(CLOSED)
            for acl in sorted(versions[-1][1])
        ]
        if there and random.random() < 0.5:
            chosen = random.sample(there, min(len(there), len(chosen)))
            self._start(process, self._delete(process, list(dict.fromkeys(chosen))))
        else:
            self._start(process, self._create(process, list(dict.fromkeys(chosen))))

    def begin(self, process: BrokerProcess) -> None:
        """Make the first rules."""
        chosen = [
            (number, Acl(principal, "*", operation, Permission.ALLOW))
            for principal, operation, numbers in _FIRST
            for number in numbers
        ]
        self._start(process, self._create(process, chosen))

    def _rule(self) -> tuple[int, Acl]:
        random = self._random
        acl = Acl(
            random.choice(("User:ann", "User:ann", "User:bob", "User:*", "User:ad")),
            random.choice(_HOSTS),
            random.choice(_OPERATIONS),
            random.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        )
        return random.randrange(len(PATTERNS)), acl

    async def _create(self, process: BrokerProcess, chosen: list[tuple[int, Acl]]) -> None:
        since = self._begin(chosen)
        answer = await self.ask(process, creation_of(_rules(chosen)), 3, ADMIN)
        self._confirm(process, chosen, since, answer and answer.results, added=True)

    async def _delete(self, process: BrokerProcess, chosen: list[tuple[int, Acl]]) -> None:
        since = self._begin(chosen)
        answer = await self.ask(process, deletion_of(_rules(chosen)), 3, ADMIN)
        results = answer and answer.filter_results
        for result in results or ():
            codes = [each.error_code for each in result.matching_acls]
            result.error_code = result.error_code or max(codes, default=0)
        self._confirm(process, chosen, since, results, added=False)

    def _begin(self, chosen: list[tuple[int, Acl]]) -> list[tuple[int, int]]:
        return [self.model.ask(number, acl) for number, acl in chosen]

    def _confirm(
        self,
        process: BrokerProcess,
        chosen: list[tuple[int, Acl]],
        since: list[tuple[int, int]],
        results: Any,
        *,
        added: bool,
    ) -> None:
        answers = results or [None] * len(chosen)
        for (number, acl), begun, result in zip(chosen, since, answers, strict=True):
            if result is None or result.error_code:  # it may be done all the same
                self.counts["changes refused"] += 1
            else:
                self.model.asked(process, number, acl, begun, added=added)
                self.counts["changes"] += 1

    # ---- clients

    def probe(self, process: BrokerProcess) -> None:
        """Send a few requests of one client."""
        random = self._random
        connection = self._connection(random.choice(CLIENTS))
        for asked in random.sample(list(self._requests()), 3):
            self._start(process, self._probe(process, asked, connection))

    def chase(self, process: BrokerProcess, other: BrokerProcess) -> None:
        """Deny something that was allowed, and see at once what another broker does, and whoever
        waits at this one.
        """
        principal, operation, numbers = self._random.choice(_FIRST)
        if principal == EVERYBODY:
            principal = self._random.choice(CLIENTS)
        number = self._random.choice(numbers)
        waiting = [each for each in self._readers if each.process.runs and not each.is_reading]
        if waiting and self._random.random() < 0.5:
            reader = self._random.choice(waiting)
            process, principal, operation = reader.process, READER, AclOperation.READ
            number = _EVERY_TOPIC
            reader.is_reading = True
            self._start(process, reader.read(2_000))
        chosen = [(number, Acl(principal, "*", operation, Permission.DENY))]
        self._start(process, self._chase(process, other, chosen))

    async def _chase(
        self, process: BrokerProcess, other: BrokerProcess, chosen: list[tuple[int, Acl]]
    ) -> None:
        await self._create(process, chosen)
        await asyncio.sleep(_A_MOMENT_S)
        for each in (process, other):
            if each.runs:
                await self.append(each)
                self.probe(each)
        await asyncio.sleep(self._random.random() * 3)
        await self._delete(process, chosen)

    def surprise(self, process: BrokerProcess) -> None:
        """Take a right back while its reader waits for records, which come then."""
        connection, view = self._connection(READER), view_of(process)
        topics = [
            name
            for name in TOPICS
            if _leads(process, name)
            and allows(
                view,
                Question(READER, connection.peer_host, AclOperation.READ, AclResource(TOPIC, name)),
            )
        ]
        if topics:
            reader = Reader(self, process, connection, [self._random.choice(topics)])
            self._start(process, self._surprise(reader))

    async def _surprise(self, reader: Reader) -> None:
        process = reader.process
        for _ in range(2):  # all there is, so that the third one waits
            await reader.read(0)
        if reader.is_over:
            return
        self._start(process, reader.read(_LONG_WAIT_MS))
        chosen = [(_EVERY_TOPIC, Acl(READER, "*", AclOperation.READ, Permission.DENY))]
        await self._create(process, chosen)
        await asyncio.sleep(_A_MOMENT_S)
        await self.append(process)
        await asyncio.sleep(self._random.random())
        await self._delete(process, chosen)

    def pursue(self, controller: BrokerProcess, other: BrokerProcess) -> None:
        """Take a right back at one broker, and let who had it ask at once at another one, which
        passes that on.
        """
        self._start(other, self._allowed_before(controller, other))

    async def _allowed_before(self, controller: BrokerProcess, other: BrokerProcess) -> None:
        """Work in the other's name: what it waits for there goes if its process is killed."""
        rule = Acl(READER, "*", AclOperation.DELETE, Permission.ALLOW)
        await self._create(other, [(_EVERY_TOPIC, rule)])
        if controller.runs:
            self._start(controller, self._pursue(controller, other))

    async def _pursue(self, controller: BrokerProcess, other: BrokerProcess) -> None:
        chosen = [(_EVERY_TOPIC, Acl(READER, "*", AclOperation.DELETE, Permission.DENY))]
        await self._create(controller, chosen)
        await asyncio.sleep(_A_MOMENT_S)
        if other.runs:
            deletion = next(
                asked
                for asked in self._requests()
                if isinstance(asked.request, DeleteTopicsRequest)
            )
            self._start(other, self._probe(other, deletion, self._connection(READER)))
        await asyncio.sleep(self._random.random())
        await self._delete(controller, chosen)

    def _requests(self) -> Iterator[Asked]:
        """One request of each kind."""
        name, group = self._random.choice(TOPICS), self._random.choice(("t", "tt"))
        topic = AclResource(TOPIC, name)
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        names = [AclResource(TOPIC, each) for each in TOPICS]
        yield Asked(
            MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=each) for each in TOPICS],
                allow_auto_topic_creation=False,
            ),
            9,
            tuple((((allows, AclOperation.DESCRIBE, each),), denied) for each in names),
            lambda answer: _by_name(answer.topics, "name", "error_code"),
        )
        yield Asked(
            fetch_of(dict.fromkeys(TOPICS, 0)),
            12,
            tuple((((allows, AclOperation.READ, each),), denied) for each in names),
            lambda answer: _by_name(answer.responses, "topic", "partitions"),
        )
        created = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1
        )
        creates = [(allows, AclOperation.CREATE, each) for each in (_THE_CLUSTER, topic)]
        yield Asked(
            CreateTopicsRequest(topics=[created], validate_only=True, timeout_ms=2_000),
            4,
            ((tuple(creates), denied),),
            lambda answer: [answer.topics[0].error_code],
            is_forwarded=True,
        )
        absent = AclResource(TOPIC, f"{name}-absent")
        yield Asked(
            DeleteTopicsRequest(topic_names=[absent.name], timeout_ms=2_000),
            5,
            ((((allows, AclOperation.DELETE, absent),), denied),),
            lambda answer: [answer.responses[0].error_code],
            is_forwarded=True,
        )
        of_group = AclResource(GROUP, group)
        yield Asked(
            HeartbeatRequest(group_id=group, member_id="m"),
            4,
            ((((allows, AclOperation.READ, of_group),), ErrorCode.GROUP_AUTHORIZATION_FAILED),),
            lambda answer: [answer.error_code],
        )
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        yield Asked(
            DescribeAclsRequest(
                resource_type_filter=TOPIC, resource_name_filter="none", pattern_type_filter=3,
                principal_filter=None, host_filter=None, operation=1, permission_type=1,
            ),
            3,
            ((((allows, AclOperation.DESCRIBE, _THE_CLUSTER),), refused),),
            lambda answer: [answer.error_code],
        )  # fmt: skip
        writes = (
            (allows, AclOperation.IDEMPOTENT_WRITE, _THE_CLUSTER),
            (allows_somewhere, AclOperation.WRITE, topic),
        )
        yield Asked(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000),
            4,
            ((writes, refused),),
            lambda answer: [answer.error_code],
        )

    async def _probe(
        self, process: BrokerProcess, asked: Asked, connection: ConnectionInfo
    ) -> None:
        begin, view = self.loop.time(), view_of(process)
        was_controller = process.controller.is_active
        answer = await self.ask(process, asked.request, asked.version, connection)
        if answer is None:
            return
        codes = asked.codes(answer)
        for (needs, denied), code in zip(asked.rows, codes, strict=True):

            def may(decided_by: Any, needs: Any = needs) -> bool:
                return any(
                    decide(decided_by, Question(connection.principal, connection.peer_host, *rest))
                    for decide, *rest in needs
                )

            if code in _UNDECIDED and asked.is_forwarded and may(view):
                continue  # no controller has answered
            if was_controller and code != denied and may(view):
                continue  # and it may be none any more
            if not self._is_right(process, asked, (begin, view), may, code == denied):
                text = f"{process} answers {code} to {connection.principal}"
                self.model.violate("decision", f"{text} at {connection.peer_host}: {asked.request}")

    def _is_right(
        self,
        process: BrokerProcess,
        asked: Asked,
        since: tuple[float, View],
        may: Callable[[View], bool],
        was_refused: bool,
    ) -> bool:
        """Whether an answer is right, by what the broker, and perhaps another one, decided by."""
        begin, view = since
        self.counts["refused" if was_refused else "passed"] += 1
        if not asked.is_forwarded or not may(view):
            return may(view) is not was_refused
        if not was_refused:
            return self.has_passed(process, begin, may)
        return not all(
            may(each)
            for other in self.model.seen
            for each in self.model.views(other, begin, self.loop.time())
        )

    def has_passed(self, process: BrokerProcess, begin: float, may: Callable[[Any], bool]) -> bool:
        """Whether a controller of that time may have let a request pass: this broker, or another
        one.
        """
        reigned = [each for each, seen in self.model.seen.items() if seen.reigned_at >= begin]
        return process in reigned or any(
            may(view)
            for other in reigned
            for view in self.model.views(other, begin, self.loop.time())
        )

    # ---- readers

    def read(self, running: list[BrokerProcess]) -> None:
        """A reader goes on with its session, or a new one begins."""
        random = self._random
        self._readers = [each for each in self._readers if not each.is_over]
        if self._readers and random.random() < 0.8:
            reader = random.choice(self._readers)
            if not reader.is_reading:
                reader.is_reading = True
                self._start(reader.process, reader.read(random.choice((0, 0, 300, 2_000))))
            return
        process = random.choice(running)
        topics = [name for name in TOPICS if _leads(process, name)]
        if topics:
            connection = self._connection(READER)
            reader = Reader(self, process, connection, topics)
            self._readers.append(reader)
            self._start(process, reader.read(0))

    async def append(self, process: BrokerProcess) -> None:
        """A record comes to each topic that a broker leads."""
        for name in TOPICS:
            if _leads(process, name):
                work = append(process, TopicPartition(name, 0), batch(b"v"))
                self._start(process, _ignored(work))

    # ---- inside

    def _connection(self, principal: str) -> ConnectionInfo:
        host = self._random.choice(ADDRESSES)
        return replace(local_connection(), principal=principal, peer_host=host)

    def _start(self, process: BrokerProcess, work: Coroutine[Any, Any, None]) -> None:
        self.loop.start(work, process.owner, "request")

    async def ask(
        self, process: BrokerProcess, request: Message, version: int, who: str | ConnectionInfo
    ) -> Any:
        """The answer; None if there was none."""
        connection = self._connection(who) if isinstance(who, str) else who
        try:
            async with asyncio.timeout(_PATIENCE_S):
                data = await process.answer(frame_of(request, version), connection)
        except (ProtocolError, TimeoutError):
            return None
        return response_of(request, version, data)


def _rules(chosen: list[tuple[int, Acl]]) -> list[tuple[AclPattern, Acl]]:
    return [(PATTERNS[number], acl) for number, acl in chosen]


def _by_name(rows: Any, name: str, code: str) -> list[int]:
    """The codes of TOPICS, in their order."""
    found = {getattr(row, name): getattr(row, code) for row in rows}
    return [
        each if isinstance(each := found[topic], int) else each[0].error_code for topic in TOPICS
    ]


def _leads(process: BrokerProcess, topic: str) -> bool:
    partition = process.replicas.hosted.find(TopicPartition(topic, 0))
    return partition is not None and partition.is_leader


async def _ignored(work: Coroutine[Any, Any, Any]) -> None:
    with suppress(KafkaError):
        await work
