"""Rights that are taken back, over and over, from clients whose connections are open: once the answer
to that is there, no request of theirs passes, in the short way or not, nor one that was waiting.

    python -m tests.faults.revocations --revocations 10000 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from kbroker.acl.acl import (
    EVERYBODY,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.acl.acl_rules import SuperUsers
from kbroker.admin.acl_admin import AclAdmin
from kbroker.admin.acl_authorizer import AclAuthorizer
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import registered
from kbroker.client.access_rules import creation_of, deletion_of
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.request import Coming, NoResponse, Response
from kbroker.protocol.schema import Message
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.repeating_client import RepeatingClient
from tests.fakes.requests.request_frames import frame_of, response_of
from tests.fakes.trees.memory_tree_files import FixedClock

ADMIN, ANN = "User:admin", "User:ann"
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
READ, WRITE = AclOperation.READ, AclOperation.WRITE
_MINUTE_MS = 60_000
_REPEATED = 3  # requests until the short way is taken

Rule = tuple[AclPattern, Acl]
_ALLOWED: list[Rule] = [
    (AclPattern(TOPIC, "t"), Acl(ANN, WILDCARD, READ, Permission.ALLOW)),
    (AclPattern(TOPIC, "t"), Acl(ANN, WILDCARD, WRITE, Permission.ALLOW)),
    (AclPattern(GROUP, "g"), Acl(ANN, WILDCARD, READ, Permission.ALLOW)),
]


@dataclass(slots=True)
class Outcome:
    """What came of many revocations."""

    revocations: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # requests, by kind
    passed: list[str] = field(default_factory=list)  # after a revocation
    wrongly_refused: list[str] = field(default_factory=list)  # before it
    short_ways: int = 0


@dataclass(slots=True, kw_only=True)
class Habit:
    """A request that one open connection sends again and again."""

    name: str
    client: RepeatingClient
    request: Callable[[], Message]
    version: int
    codes: Callable[[Any], set[int]]
    needs: tuple[tuple[AclResourceType, str, AclOperation], ...]


class Revoking:
    """A broker, clients that repeat their requests, and one that takes their rights back."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._clock = clock = FixedClock()
        zk = ZkUtils(EmbeddedTree(clock).session(), clock)
        self.authorizer = AclAuthorizer(zk, clock, SuperUsers(frozenset({ADMIN})))
        given: dict[str, Any] = {
            "authorizer": self.authorizer,
            "acls": AclAdmin(zk.tree, self.authorizer),
        }
        self._cluster = cluster = ReplicationCluster()
        self._log = cluster.lead("t")
        cluster.append(self._log, b"v")
        groups = GroupBroker()
        self._member_id = groups.stable_member().member_id
        self._logs = KafkaApis(registered(), replace(ApiCaller(cluster).services, **given))
        self._groups = KafkaApis(registered(), replace(GroupCaller(groups).services, **given))
        self._admin = self._client(self._logs, ADMIN)
        self._session_id = self._epoch = 0
        self._waiting = self._client(self._logs, ANN)
        self.outcome = Outcome()

    async def run(self, revocations: int) -> None:
        """Take so many rights back."""
        await self.authorizer.start()
        habits = self._habits()
        for number in range(revocations):
            await self._revoke_one(habits, number)
        self.outcome.revocations += revocations
        self.outcome.short_ways += sum(habit.client.short_ways for habit in habits)
        await self.authorizer.stop()
        self._cluster.close()

    async def _revoke_one(self, habits: list[Habit], number: int) -> None:
        await self._create(_ALLOWED)
        for habit in habits:
            codes = [await self._ask(habit) for _ in range(_REPEATED)]
            if codes != [{0}] * _REPEATED:
                self.outcome.wrongly_refused.append(f"{number}: {habit.name} {codes}")
        waiting = await self._wait()
        lost = self._random.choice(_ALLOWED)
        denied: list[Rule] = []
        if self._random.random() < 0.5:
            await self._delete([lost])
        else:
            denied = [self._denial_of(lost)]
            await self._create(denied)
        await self._look(habits, waiting, lost, f"{number}, after {lost} {denied}")
        self._waiting.connection.close()
        self._waiting = self._client(self._logs, ANN)
        self._clock.value_ms += _MINUTE_MS  # notifications of changes go in time
        await self._delete([*_ALLOWED, *denied])

    async def _look(self, habits: list[Habit], waiting: Coming[Any], lost: Rule, when: str) -> None:
        """See whether anything passes that needs what was lost."""
        outcome, (pattern, acl) = self.outcome, lost
        for habit in habits:
            if (pattern.type, pattern.name, acl.operation) not in habit.needs:
                continue
            if 0 in await self._ask(habit):
                outcome.passed.append(f"{habit.name}: {when}")
            outcome.refused[habit.name] += 1
        if acl.operation is READ and pattern.type is TOPIC:
            self._cluster.append(self._log, b"secret")
            if 0 in self._fetched(waiting.finish()):
                outcome.passed.append(f"a fetch that waited: {when}")
            outcome.refused["waiting fetch"] += 1

    # ---- clients

    def _client(self, apis: KafkaApis, principal: str) -> RepeatingClient:
        client = RepeatingClient(apis)
        client.connection.principal = principal
        return client

    def _habits(self) -> list[Habit]:
        commit = OffsetCommitRequest.OffsetCommitRequestTopic(
            name="t",
            topic_id=TOPIC_ID,
            partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=1)],
        )
        kinds: list[tuple[str, KafkaApis, Callable[[], Message], int, Any, Any]] = [
            ("Produce", self._logs, _produce, 9, _produced, ((TOPIC, "t", WRITE),)),
            ("Fetch", self._logs, _fetch, 12, _fetched, ((TOPIC, "t", READ),)),
            ("Fetch of a session", self._logs, self._in_session, 12, _fetched,
             ((TOPIC, "t", READ),)),
            ("OffsetCommit", self._groups,
             lambda: OffsetCommitRequest(group_id="g", topics=[commit], member_id=self._member_id,
                                         generation_id_or_member_epoch=1),
             8, lambda answer: {answer.topics[0].partitions[0].error_code},
             ((TOPIC, "t", READ), (GROUP, "g", READ))),
            ("Heartbeat", self._groups,
             lambda: HeartbeatRequest(group_id="g", generation_id=1, member_id=self._member_id),
             4, lambda answer: {answer.error_code}, ((GROUP, "g", READ),)),
        ]  # fmt: skip
        return [
            Habit(
                name=name,
                client=self._client(apis, ANN),
                request=request,
                version=version,
                codes=codes,
                needs=needs,
            )
            for name, apis, request, version, codes, needs in kinds
        ]

    async def _ask(self, habit: Habit) -> set[int]:
        if habit.name == "Fetch of a session" and not self._session_id:
            first: Any = await habit.client.ask(_fetch(epoch=0), habit.version)
            self._session_id, self._epoch = first.session_id, 0
        answer = await habit.client.ask(habit.request(), habit.version)
        return habit.codes(answer)

    def _in_session(self) -> FetchRequest:
        self._epoch += 1
        return _fetch(epoch=self._epoch, session=self._session_id)

    async def _wait(self) -> Coming[Any]:
        """A fetch in the short way, which waits for records beyond the end of the log."""
        for _ in range(2):
            await self._waiting.answer(frame_of(_fetch(max_wait_ms=500), 12))
        end = self._log.log.log_end_offset
        waiting = self._waiting.send(bytes(frame_of(_fetch(offset=end, max_wait_ms=500), 12)))
        assert isinstance(waiting, Coming)
        return waiting

    def _fetched(self, result: Response | NoResponse) -> set[int]:
        assert isinstance(result, Response)
        data = b"".join(
            piece if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read()
            for piece in result.pieces
        )
        return _fetched(response_of(_fetch(), 12, data))

    # ---- the administrator

    def _denial_of(self, lost: Rule) -> Rule:
        """Another rule that takes the same right."""
        random, (pattern, acl) = self._random, lost
        name = random.choice((pattern.name, WILDCARD))
        kind = PatternType.LITERAL
        if random.random() < 0.3:
            name, kind = pattern.name, PatternType.PREFIXED
        denied = Acl(
            random.choice((ANN, EVERYBODY)),
            random.choice((WILDCARD, "127.0.0.1")),
            random.choice((acl.operation, AclOperation.ALL)),
            Permission.DENY,
        )
        return AclPattern(pattern.type, name, kind), denied

    async def _create(self, rules: list[Rule]) -> None:
        answer: Any = await self._admin.ask(creation_of(rules), 3)
        assert {result.error_code for result in answer.results} == {0}

    async def _delete(self, rules: list[Rule]) -> None:
        answer: Any = await self._admin.ask(deletion_of(rules), 3)
        assert {result.error_code for result in answer.filter_results} == {0}


def _produce() -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(records=memoryview(bytearray(batch(b"v"))))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic])


def _fetch(
    *, offset: int = 0, max_wait_ms: int = 0, epoch: int = -1, session: int = 0
) -> FetchRequest:
    partition = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=100)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1_000,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[partition])],
    )


def _produced(answer: Any) -> set[int]:
    return {answer.responses[0].partition_responses[0].error_code}


def _fetched(answer: Any) -> set[int]:
    return {answer.responses[0].partitions[0].error_code}


def main() -> int:
    """Print what has passed; the exit code is 1 if anything has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--revocations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    revoking = Revoking(options.seed)
    asyncio.run(revoking.run(options.revocations))
    outcome = revoking.outcome
    print(*outcome.passed[:20], *outcome.wrongly_refused[:20], sep="\n")
    refused = ", ".join(f"{name} {count}" for name, count in sorted(outcome.refused.items()))
    print(
        f"{outcome.revocations:,} revocations, {len(outcome.passed)} requests passed after one, "
        f"{len(outcome.wrongly_refused)} were refused without; refused: {refused}; "
        f"{outcome.short_ways:,} short ways"
    )
    return bool(outcome.passed or outcome.wrongly_refused)


if __name__ == "__main__":
    sys.exit(main())
