"""Answers to Metadata that are kept: the same as those that are made, and never from before a
change.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis import metadata
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.large_requests import LARGE_BYTES
from kbroker.apis.registry import registered
from kbroker.model import TopicPartition
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.request import Request, Response
from kbroker.replication.kept_answers import LARGEST_BYTES, MOST_BYTES, Asked, KeptAnswers
from tests.fakes.acls.ruled_authorizer import RuledAuthorizer
from tests.fakes.clusters.replication_cluster import (
    ReplicationCluster,
    partition_metadata,
    topic_id_of,
    update_metadata,
)
from tests.fakes.requests.api_context import ApiCaller, connection
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer
from tests.fakes.requests.recording_quotas import RecordingQuotas
from tests.fakes.requests.recording_replier import request_of

KEY = 3
Topic = MetadataRequest.MetadataRequestTopic


class Asker:
    """Sends Metadata to a broker; `made` counts the answers that were not there already."""

    def __init__(self, cluster: ReplicationCluster, **services: Any) -> None:
        self.cluster = cluster
        self.services = replace(ApiCaller(cluster, auto_create=False).services, **services)
        api = registered()[KEY]
        self.made = 0

        def handler(ctx: Any, request: Any) -> Any:
            self.made += 1
            return api.handler(ctx, request)

        self.apis = KafkaApis({KEY: replace(api, handler=handler)}, self.services)
        self.without = KafkaApis({KEY: replace(api, known=None)}, self.services)

    def __call__(self, request: Request) -> bytes:
        return self._sent(self.apis, request)

    def made_again(self, request: Request) -> bytes:
        """The answer as it is made."""
        return self._sent(self.without, request)

    def _sent(self, apis: KafkaApis, request: Request) -> bytes:
        result = self.result(apis, request)
        return b"".join(bytes(piece) for piece in result.pieces)  # type: ignore[arg-type]

    def result(self, apis: KafkaApis, request: Request) -> Response:
        """Return it as it is to be sent."""
        result: Any = apis.handle(request)
        while inspect.isawaitable(result):
            result = self.cluster.loop.run_until_complete(asyncio.wait_for(result, 5))
        assert isinstance(result, Response)
        return result


class AskedQuotas(RecordingQuotas):
    """Quotas that have to be asked about each client."""

    asks_ahead = True

    def ask(self, _principal: str, _client_id: str | None) -> None:
        """All of them are known."""


@pytest.fixture
def ask(cluster: ReplicationCluster) -> Asker:
    cluster.lead("t")
    return Asker(cluster)


def request(*names: str, version: int = 9, behind: bytes = b"", **values: Any) -> Request:
    message = MetadataRequest(topics=[Topic(name=name) for name in names], **values)
    return request_of(KEY, version, encode(message, version) + behind)


@pytest.mark.usefixtures("small_or_large")
@pytest.mark.parametrize("version", range(14))
def test_an_equal_request_gets_the_answer_that_is_there(ask: Asker, version: int) -> None:
    first = ask(request("t", version=version))
    again = ask(request("t", version=version)._replace(header=request_of(3, version, b"").header))

    assert ask.made == 1
    assert first == again == ask.made_again(request("t", version=version))


def test_each_answer_has_the_number_of_its_request(ask: Asker) -> None:
    ask(request("t"))
    body = encode(MetadataRequest(topics=[Topic(name="t")]), 9)

    second = ask(request_of(KEY, 9, body, correlation_id=77))

    assert ask.made == 1
    assert int.from_bytes(second[:4], "big") == 77


def the_leader(cluster: ReplicationCluster) -> None:
    state = partition_metadata(leader=1, leader_epoch=4, isr=(0, 1), replicas=(0, 1))
    cluster.metadata.update(update_metadata(("t", state)))


def the_isr(cluster: ReplicationCluster) -> None:
    state = partition_metadata(leader=0, isr=(0, 1), replicas=(0, 1))
    cluster.metadata.update(update_metadata(("t", state)))


def the_partitions(cluster: ReplicationCluster) -> None:
    cluster.metadata.update(update_metadata(("t", partition_metadata(1))))


def the_topic(cluster: ReplicationCluster) -> None:
    cluster.metadata.update(update_metadata(("t", partition_metadata(leader=-2))))


def the_brokers(cluster: ReplicationCluster) -> None:
    cluster.metadata.update(update_metadata(brokers=(0, 2)))


def the_rack(cluster: ReplicationCluster) -> None:
    cluster.metadata.update(update_metadata(racks={0: "r"}))


def the_controller(cluster: ReplicationCluster) -> None:
    cluster.metadata.update(update_metadata(controller_id=2))


def the_disk(cluster: ReplicationCluster) -> None:
    cluster.metadata.is_offline_here = lambda _: True
    cluster.metadata.replicas_failed([TopicPartition("t", 0)])


@pytest.mark.parametrize(
    "change",
    [
        the_leader,
        the_isr,
        the_partitions,
        the_topic,
        the_brokers,
        the_rack,
        the_controller,
        the_disk,
    ],
)
def test_the_next_request_sees_what_has_changed(
    ask: Asker, change: Callable[[ReplicationCluster], None]
) -> None:
    before = ask(request("t"))

    change(ask.cluster)

    assert ask(request("t")) == ask.made_again(request("t")) != before


def test_what_other_clients_reach_otherwise_is_another_answer(cluster: ReplicationCluster) -> None:
    cluster.lead("t")
    cluster.metadata.update(update_metadata(host=""))
    ask = Asker(cluster)
    plain = request("t")
    others = [
        plain._replace(connection=connection("OTHER", "127.0.0.1", 9092)),
        plain._replace(connection=connection("PLAINTEXT", "10.0.0.1", 9092)),
        plain._replace(connection=connection("PLAINTEXT", "127.0.0.1", 1)),
        request("t", version=8),
        request("t", include_topic_authorized_operations=True),
        request("t", version=10, include_cluster_authorized_operations=True),
        request("t", version=10),
    ]
    ask(plain)

    answers = [ask(each) for each in others]

    assert ask.made == 1 + len(others)
    assert answers == [ask.made_again(each) for each in others]


@pytest.mark.usefixtures("small_or_large")
def test_a_refusal_is_not_kept_so_that_the_log_hears_of_each(ask: Asker) -> None:
    missing = request("t", "missing")

    assert ask(missing) == ask(missing)
    assert ask.made == 2
    ask.cluster.lead("missing")
    assert ask(missing) == ask.made_again(missing)


def test_bytes_behind_a_request_are_counted_each_time(ask: Asker) -> None:
    ask(request("t"))

    for _ in range(2):
        ask(request("t", behind=b"x"))

    assert ask.made == 3
    assert ask.apis.stats.trailing_bytes.value == 2


@pytest.mark.parametrize(
    "services",
    [
        {"quotas": AskedQuotas()},
        {"authorizer": DenyingAuthorizer()},
        {
            "authorizer": DenyingAuthorizer(
                (AclOperation.DESCRIBE, AclResource(AclResourceType.TOPIC, "t"))
            )
        },
    ],
)
def test_who_has_to_be_asked_is_asked_each_time(
    cluster: ReplicationCluster, services: dict[str, Any]
) -> None:
    cluster.lead("t")
    Asker(cluster)(request("t"))
    ask = Asker(cluster, **services)

    assert ask(request("t")) == ask(request("t"))
    assert ask.made == 2


@pytest.mark.usefixtures("small_or_large")
@pytest.mark.parametrize("version", range(14))
def test_an_answer_that_is_there_counts_against_the_time_of_its_client(
    cluster: ReplicationCluster, version: int
) -> None:
    cluster.lead("t")
    quotas = RecordingQuotas(throttle_ms=7)
    ask, wanted = Asker(cluster, quotas=quotas), request("t", version=version)

    results = [ask.result(ask.apis, wanted) for _ in range(3)]

    assert [result.throttle_ms for result in results] == [7] * 3
    assert all(used[-1] > 0 for used in quotas.used)
    assert len(quotas.used) == 3
    answers = [b"".join(bytes(piece) for piece in each.pieces) for each in results]
    assert len(set(answers)) == 1, "all of them say for how long it pauses"
    assert answers[0] == ask.made_again(wanted)
    quotas.throttle_ms = 0
    free = ask(wanted)
    assert free == Asker(cluster).made_again(wanted)
    assert ask.made <= 4, "an answer that says so is not kept for those that do not pause"
    made = ask.made
    assert ask(wanted) == free
    assert ask.made == made


def as_principal(name: str, host: str = "127.0.0.1") -> Request:
    client = connection("PLAINTEXT", "127.0.0.1", 9092)
    client.principal, client.peer_host = name, host
    return request("t")._replace(connection=client)


@pytest.fixture
def rules() -> RuledAuthorizer:
    """All may see all topics."""
    rules = RuledAuthorizer()
    rules.set(AclResourceType.TOPIC, "*", AclOperation.DESCRIBE)
    return rules


@pytest.mark.usefixtures("small_or_large")
def test_under_rules_an_answer_is_kept_for_a_principal_at_an_address(
    cluster: ReplicationCluster, rules: RuledAuthorizer
) -> None:
    cluster.lead("t")
    ask = Asker(cluster, authorizer=rules)
    askers = [as_principal("User:ann"), as_principal("User:bob"), as_principal("User:ann", "::1")]

    answers = [ask(each) for each in askers * 2]

    assert ask.made == 3
    assert answers == [ask.made_again(each) for each in askers * 2]


@pytest.mark.usefixtures("small_or_large")
def test_what_rules_are_changed_to_is_seen_by_the_next_request(
    cluster: ReplicationCluster, rules: RuledAuthorizer
) -> None:
    cluster.lead("t")
    ask = Asker(cluster, authorizer=rules)
    wanted = as_principal("User:ann")
    seen = ask(wanted)

    rules.set(AclResourceType.TOPIC, "t", denied=(AclOperation.DESCRIBE,), who="User:ann")
    refused = ask(wanted)

    assert refused == ask.made_again(wanted) != seen
    rules.set(AclResourceType.TOPIC, "t")
    assert ask(wanted) == seen
    made = ask.made
    rules.read_all_again()
    assert ask(wanted) == seen
    assert ask.made == made + 1


def test_rules_that_change_amid_a_large_answer_leave_nothing_behind(
    cluster: ReplicationCluster, rules: RuledAuthorizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.apis.large_answers.SMALL_BYTES", -1)
    cluster.lead("t")
    ask = Asker(cluster, authorizer=rules)
    written = metadata.written

    async def with_a_change(*args: Any) -> Any:
        response = await written(*args)
        rules.set(AclResourceType.TOPIC, "t", denied=(AclOperation.DESCRIBE,))
        rules.set(AclResourceType.TOPIC, "t")
        return response

    with monkeypatch.context() as patched:
        patched.setattr(metadata, "written", with_a_change)
        ask(as_principal("User:ann"))

    made = ask.made
    ask(as_principal("User:ann"))
    assert ask.made == made + 1


@pytest.mark.usefixtures("small_or_large")
def test_a_change_amid_a_large_answer_is_seen_by_the_next_request(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = metadata.written

    async def with_a_change(*args: Any) -> Any:
        response = await written(*args)
        the_leader(ask.cluster)
        return response

    with monkeypatch.context() as patched:
        patched.setattr(metadata, "written", with_a_change)
        ask(request("t"))

    the_leader(ask.cluster)
    assert ask(request("t")) == ask.made_again(request("t"))


def test_a_large_answer_waits_where_there_is_no_memory_for_it(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.apis.large_answers.SMALL_BYTES", -1)
    first = ask(request("t"))
    holder = ask.apis.room.share()
    holder.hold(1 << 40)

    waiting = ask.apis.handle(request("t"))
    assert inspect.isawaitable(waiting)
    holder.give_back()

    result: Any = ask.cluster.loop.run_until_complete(asyncio.wait_for(waiting, 5))
    assert b"".join(result.pieces) == first


def many(count: int, version: int, *more: str) -> Request:
    """A request for so many topics, and more, that is answered in parts."""
    return request(*(f"topic-{at:013}" for at in range(count)), *more, version=version)


@pytest.fixture
def many_topics(cluster: ReplicationCluster) -> Asker:
    states = [(f"topic-{at:013}", partition_metadata()) for at in range(1_200)]
    cluster.metadata.update(update_metadata(*states))
    return Asker(cluster)


@pytest.mark.parametrize("version", [1, 9, 13])
def test_an_answer_in_parts_is_kept_as_a_whole(many_topics: Asker, version: int) -> None:
    wanted = many(1_200, version)
    assert len(wanted.frame) > LARGE_BYTES

    first = many_topics(wanted)
    made = many_topics.made
    assert made > 1
    assert many_topics(wanted) == first == many_topics.made_again(wanted)
    assert many_topics.made == made
    the_brokers(many_topics.cluster)
    assert many_topics(wanted) == many_topics.made_again(wanted) != first


@pytest.mark.parametrize("version", [1, 9, 13])
def test_an_answer_in_parts_with_a_refusal_is_not_kept(many_topics: Asker, version: int) -> None:
    first = many_topics(many(1_200, version, "missing"))
    made = many_topics.made

    assert many_topics(many(1_200, version, "missing")) == first
    assert many_topics.made == 2 * made


def test_bytes_beyond_a_request_in_parts_are_counted_each_time(many_topics: Asker) -> None:
    wanted = many(1_200, 9)
    wanted = request_of(KEY, 9, bytes(wanted.frame) + b"x")

    for _ in range(2):
        many_topics(wanted)

    assert many_topics.apis.stats.trailing_bytes.value == 2


def test_a_very_long_request_is_not_compared(many_topics: Asker) -> None:
    wanted = many(4_000, 9)
    many_topics(wanted)
    made = many_topics.made

    many_topics(wanted)

    assert many_topics.made == 2 * made


def random_change(cluster: ReplicationCluster, rng: random.Random) -> None:
    state = partition_metadata(
        rng.randrange(3),
        leader=rng.choice([-2, -1, 0, 1, 2]),
        isr=rng.sample([0, 1, 2], rng.randrange(1, 4)),
        replicas=(0, 1, 2),
    )
    cluster.metadata.update(
        update_metadata(
            (rng.choice("abcd"), state),
            brokers=rng.sample([0, 1, 2], rng.randrange(1, 4)),
            controller_id=rng.randrange(3),
            host=rng.choice(["", "h"]),
        )
    )


def random_request(rng: random.Random) -> Request:
    version = rng.randrange(14)
    names = [Topic(name=rng.choice("abcd")) for _ in range(rng.randrange(3))]
    if version >= 12 and rng.randrange(2):
        names = [Topic(name=None, topic_id=topic_id_of(name.name or "")) for name in names]
    message = MetadataRequest(
        topics=None if version and not rng.randrange(4) else names,
        allow_auto_topic_creation=bool(rng.randrange(2)),
        include_topic_authorized_operations=bool(rng.randrange(2)),
    )
    conn = connection("PLAINTEXT", rng.choice(["127.0.0.1", "::ffff:10.0.0.1"]), 9092)
    return request_of(KEY, version, encode(message, version))._replace(connection=conn)


@pytest.mark.usefixtures("small_or_large")
def test_thousands_of_answers_between_changes_are_as_they_would_be_made(
    cluster: ReplicationCluster,
) -> None:
    ask, rng = Asker(cluster), random.Random(5)
    asked = 0
    for _ in range(60):
        random_change(cluster, rng)
        requests = [random_request(rng) for _ in range(8)]
        for each in rng.choices(requests, k=40):
            asked += 1
            assert ask(each) == ask.made_again(each)

    assert ask.made < asked / 2


def asked(name: bytes) -> Asked:
    return Asked(9, "PLAINTEXT", "h", 1, name)


def test_what_is_kept_takes_no_more_than_its_bytes_and_the_oldest_goes_first() -> None:
    kept = KeptAnswers()
    answer = bytes(LARGEST_BYTES - 2)
    for at in range(6):
        kept.keep(asked(b"%d" % at), answer, kept.since)

    assert [kept.find(asked(b"%d" % at)) is not None for at in range(6)] == [False] * 2 + [True] * 4
    assert 4 * (LARGEST_BYTES - 1) <= MOST_BYTES
    kept.keep(asked(b"large"), bytes(LARGEST_BYTES), kept.since)
    assert kept.find(asked(b"large")) is None
    before = kept.since
    kept.forget()
    assert kept.find(asked(b"5")) is None
    kept.keep(asked(b"5"), b"from before", before)
    assert kept.find(asked(b"5")) is None
