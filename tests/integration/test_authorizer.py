"""Rules of access in whole brokers: made by one client, in force for another when the answer has
come, at other brokers soon, and after a start again.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResourceType, PatternType, Permission
from kbroker.client.broker_link import BrokerLink
from kbroker.client.connection_settings import ConnectionSettings, Login
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError, ErrorCode
from kbroker.protocol.messages.create_acls import CreateAclsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.start.local_cluster import LocalCluster
from kbroker.server.start.start_refusals import refusals_of
from tests.fakes.running.waiting import until

USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_admin="secret" user_ann="secret";'
)
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin; User:ANONYMOUS",
    "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": USERS,
    "auto.create.topics.enable": "false",
    "listeners": "BROKERS://127.0.0.1:0,CLIENTS://127.0.0.1:0",
}
E = ErrorCode
ANY = DescribeAclsRequest(
    resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
    principal_filter=None, host_filter=None, operation=1, permission_type=1,
)  # fmt: skip


class Client:
    """A user's connection to one broker; requests run beside the loop of the brokers."""

    def __init__(self, server: KafkaServer, user: str) -> None:
        (port,) = (e.port for e in server.end_points if e.listener_name == "CLIENTS")
        login = Login(mechanism="PLAIN", username=user, password="secret")
        self._connect = lambda: BrokerLink("127.0.0.1", port, 20, ConnectionSettings(login=login))
        self._link: BrokerLink | None = None

    async def ask(self, request: Any) -> Any:
        if self._link is None:
            self._link = await asyncio.to_thread(self._connect)
        return await asyncio.to_thread(self._link.ask, request)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

    async def allow(self, operation: AclOperation, name: str, /, **fields: Any) -> list[int]:
        """Create a rule for ann about topics that begin so; returns the codes."""
        creation: dict[str, Any] = {
            "resource_type": AclResourceType.TOPIC, "resource_name": name,
            "resource_pattern_type": PatternType.PREFIXED, "principal": "User:ann", "host": "*",
            "operation": operation, "permission_type": Permission.ALLOW,
        }  # fmt: skip
        rule = CreateAclsRequest.AclCreation(**(creation | fields))
        answer = await self.ask(CreateAclsRequest(creations=[rule]))
        return [result.error_code for result in answer.results]

    async def create_topic(self, name: str) -> tuple[int, int]:
        """The code, and that of the topic's settings."""
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1
        )
        answer = await self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
        return answer.topics[0].error_code, answer.topics[0].topic_config_error_code

    async def delete_topics(self, *names: str) -> list[tuple[str, int]]:
        topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
        answer = await self.ask(DeleteTopicsRequest(topics=topics, timeout_ms=20_000))
        return sorted((each.name, each.error_code) for each in answer.responses)

    async def topics(self) -> list[str]:
        return [topic.name for topic in (await self.ask(MetadataRequest(topics=None))).topics]

    async def fetch(self, name: str, max_wait_ms: int = 0, replica_id: int = -1) -> int:
        """The code of a Fetch, which waits so long for records that are not there."""
        partition = FetchRequest.FetchPartition(partition_max_bytes=1)
        topic = FetchRequest.FetchTopic(topic=name, partitions=[partition])
        request = FetchRequest(
            topics=[topic],
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_epoch=-1,
            replica_id=replica_id,
        )
        answer = await self.ask(request)
        return int(answer.responses[0].partitions[0].error_code)


async def test_rules_are_in_force_when_their_answer_comes_and_after_a_start_again(
    tmp_path: Path,
) -> None:
    config = KafkaConfig.for_profile("dev", {**SETTINGS, "log.dirs": str(tmp_path / "data")})
    assert list(refusals_of(config)) == []
    server = KafkaServer(config)
    await server.startup()
    with closing(Client(server, "admin")) as admin, closing(Client(server, "ann")) as ann:
        assert await admin.create_topic("other") == (E.NONE, E.NONE)
        refused = E.TOPIC_AUTHORIZATION_FAILED
        assert await ann.topics() == []
        assert await ann.create_topic("orders-1") == (refused, E.NONE)
        assert await ann.allow(AclOperation.READ, "x") == [E.CLUSTER_AUTHORIZATION_FAILED]
        assert (await ann.ask(ANY)).error_code == E.CLUSTER_AUTHORIZATION_FAILED
        assert await ann.delete_topics("no", "other") == [("no", refused), ("other", refused)]

        for operation in (AclOperation.CREATE, AclOperation.READ):
            assert await admin.allow(operation, "orders-") == [E.NONE]
        assert await ann.create_topic("orders-1") == (E.NONE, refused)
        assert await ann.topics() == ["orders-1"]
        assert await ann.fetch("orders-1") == E.NONE

        waiting = asyncio.create_task(ann.fetch("orders-1", max_wait_ms=1_000))
        deny = {"permission_type": Permission.DENY, "resource_pattern_type": PatternType.LITERAL}
        assert await admin.allow(AclOperation.READ, "orders-1", **deny) == [E.NONE]
        assert await waiting == refused, "what waited is not answered with records either"
        assert await ann.fetch("orders-1") == refused
        assert await ann.topics() == ["orders-1"], "Read denied denies nothing else"

        for spoilt, code in (
            ({"resource_name": ""}, E.INVALID_REQUEST),
            ({"principal": "ann"}, E.INVALID_REQUEST),
            ({"resource_name": "a/b", "resource_type": 3}, E.INVALID_REQUEST),
            ({"resource_type": 4}, E.INVALID_REQUEST),
            ({"operation": 1}, E.INVALID_REQUEST),
            ({"operation": 77}, E.INVALID_REQUEST),
            ({"permission_type": 0}, E.INVALID_REQUEST),
        ):
            assert await admin.allow(AclOperation.READ, "x", **spoilt) == [code], spoilt

    await server.shutdown()
    server = KafkaServer(config)
    await server.startup()
    with closing(Client(server, "admin")) as admin, closing(Client(server, "ann")) as ann:
        assert await ann.fetch("orders-1") == E.TOPIC_AUTHORIZATION_FAILED
        found = (await admin.ask(ANY)).resources
        assert [(r.resource_name, r.pattern_type, len(r.acls)) for r in found] == [
            ("orders-1", PatternType.LITERAL, 1),
            ("orders-", PatternType.PREFIXED, 2),
        ]
        filters = [
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=2, resource_name_filter=name, pattern_type_filter=kind,
                principal_filter=None, host_filter=None, operation=1, permission_type=permission,
            )
            for name, kind, permission in (("orders-1", 2, 2), ("x", 1, 1), (None, 1, 77))
        ]  # fmt: skip
        deleted = (await admin.ask(DeleteAclsRequest(filters=filters))).filter_results
        assert [len(each.matching_acls) for each in deleted] == [1, 0, 0]
        assert [each.error_code for each in deleted] == [E.NONE] * 3
        assert await ann.fetch("orders-1") == E.NONE
    await server.shutdown()


async def test_brokers_share_rules_and_pass_nothing_on_that_is_not_granted(tmp_path: Path) -> None:
    configs = [
        KafkaConfig.for_profile(
            "dev", {**SETTINGS, "log.dirs": str(tmp_path / str(number)), "broker.id": str(number)}
        )
        for number in range(2)
    ]
    cluster = LocalCluster(configs, str(tmp_path))
    await cluster.startup()
    servers = [each for each in cluster.servers if each is not None]
    (follower,) = (each for each in servers if not each.is_controller)
    with (
        closing(Client(servers[0], "admin")) as admin,
        closing(Client(follower, "admin")) as other_admin,
        closing(Client(follower, "ann")) as ann,
    ):
        assert await other_admin.create_topic("orders-1") == (E.NONE, E.NONE)
        refused = E.TOPIC_AUTHORIZATION_FAILED
        assert await ann.delete_topics("orders-1") == [("orders-1", refused)]
        assert await ann.create_topic("orders-2") == (refused, E.NONE)
        assert await ann.fetch("orders-1", replica_id=0) == refused, "nobody is a broker by its id"

        for operation in (AclOperation.CREATE, AclOperation.DELETE):
            assert await admin.allow(operation, "orders-") == [E.NONE]

        async def is_created() -> bool:
            return await ann.create_topic("orders-2") == (E.NONE, refused)

        await until(is_created)
        assert await ann.delete_topics("orders-1", "no") == [("no", refused), ("orders-1", E.NONE)]
    await cluster.shutdown()


async def test_an_authorizer_of_ones_own_decides_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs/security.md").read_text()
    shown = page.partition("### An authorizer of your own")[2]
    code = shown.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "team.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    own = {
        "authorizer.class.name": "team:TeamAuthorizer", "team.operators": "admin",
        "super.users": "User:ANONYMOUS", "log.dirs": str(tmp_path / "data"),
    }  # fmt: skip
    config = KafkaConfig.for_profile("dev", {**SETTINGS, **own})
    assert list(refusals_of(config)) == []
    server = KafkaServer(config)
    await server.startup()
    with closing(Client(server, "admin")) as admin, closing(Client(server, "ann")) as ann:
        assert await admin.create_topic("bob.orders") == (E.NONE, E.NONE)
        assert await ann.create_topic("bob.more") == (E.TOPIC_AUTHORIZATION_FAILED, E.NONE)
        assert await ann.create_topic("ann.orders") == (E.NONE, E.NONE)
        assert await ann.topics() == ["ann.orders"]
        assert await ann.fetch("bob.orders") == E.TOPIC_AUTHORIZATION_FAILED
        assert await ann.fetch("ann.orders") == E.NONE
        answer = await admin.ask(ANY)
        assert (answer.error_code, "keeps no rules" in answer.error_message) == (
            E.SECURITY_DISABLED,
            True,
        )
    await server.shutdown()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("exits", "it cannot be made: SystemExit"), ("NoAuthorizer", "has no method authorize")],
)
async def test_an_authorizer_that_cannot_be_made_refuses_the_start(
    tmp_path: Path, name: str, sentence: str
) -> None:
    own = {"authorizer.class.name": f"{__name__}:{name}", "log.dirs": str(tmp_path / "data")}
    server = KafkaServer(KafkaConfig.for_profile("dev", {**SETTINGS, **own}))

    with pytest.raises(ConfigError, match=sentence):
        await server.startup()


def exits(_settings: object) -> None:
    """End the process, or try to."""
    raise SystemExit


class NoAuthorizer:
    """Takes settings, and decides nothing."""

    def __init__(self, settings: object) -> None:
        pass


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"authorizer.class.name": "com.example.Authorizer"}, "AclAuthorizer and org.apache"),
        ({"authorizer.class.name": "com.example.Authorizer"}, "a class of Python"),
        ({"authorizer.class.name": "no_such_module:Team"}, "no_such_module cannot be imported"),
        ({"authorizer.class.name": f"{__name__}:USERS"}, "has no USERS to call"),
        ({"super.users": "admin"}, "'admin' is not like User:admin"),
        ({"allow.everyone.if.no.acl.found": "maybe"}, "either true or false"),
        ({"authorizer.zookeeper.url": "zk:2181/acls"}, "authorizer.zookeeper.url: the rules of"),
    ],
)
def test_an_authorizer_that_would_decide_otherwise_refuses_the_start(
    settings: dict[str, str], sentence: str
) -> None:
    config = KafkaConfig.for_profile("dev", {**SETTINGS, **settings})

    (refusal,) = refusals_of(config)
    assert isinstance(refusal, ConfigError)
    assert sentence in str(refusal)
    assert "secret" not in str(refusal)
