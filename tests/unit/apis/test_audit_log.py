"""What an authorizer has decided, as the audit log has it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation, AclResource, AclResourceType
from kbroker.admin.broker_loggers import TRACE, alter_loggers, validate_logger_changes
from kbroker.admin.config_changes import OP_DELETE, OP_SET, AlterableConfig
from kbroker.apis.audit_log import LOGGER, AuditLog
from kbroker.apis.authorizer import Purpose
from kbroker.counters import CounterRegistry, MetricName
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.schema import Message
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer, ask
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.running.virtual_time import VirtualTime

DESCRIBE = AclOperation.DESCRIBE
OF_CLUSTER = DESCRIBE, CLUSTER
OF_TOPIC = DESCRIBE, AclResource(AclResourceType.TOPIC, "secret")
OF_GROUP = DESCRIBE, AclResource(AclResourceType.GROUP, "secret")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str]]]:
    """Returns what was logged since the last look, with its levels."""
    caplog.set_level(logging.INFO, LOGGER)

    def taken() -> list[tuple[str, str]]:
        found = [(each.levelname, each.getMessage()) for each in caplog.records]
        caplog.clear()
        return found

    return taken


@pytest.fixture
def asked(cluster: Any, call: Any) -> Callable[..., Any]:
    """Asks a broker that leads a topic, as a client without some rights."""
    cluster.append(cluster.lead("secret"), b"v")
    audit = AuditLog(VirtualTime())

    def asked(request: Message, version: int, *denied: Any, writers: bool = True) -> Any:
        authorizer = DenyingAuthorizer(*denied)
        authorizer.writers = writers
        about_groups = isinstance(request, DescribeGroupsRequest | ListGroupsRequest)
        services = GroupCaller().services if about_groups else call.services
        services = replace(services, authorizer=authorizer, audit=audit)
        return cluster.loop.run_until_complete(ask(services, request, version))

    return asked


def told(
    result: str, operation: str, resource: str, request: str, references: int = 1, more: str = ""
) -> str:
    return (
        f"Principal = User:ANONYMOUS is {result} Operation = {operation} from host = 127.0.0.1 on "
        f"resource = {resource} for request = {request} with resourceRefCount = {references}{more}"
    )


def test_a_refusal_is_told_in_kafkas_words_and_counts_what_refers_to_the_resource(
    asked: Any, lines: Any
) -> None:
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[partition])
        for name in ("secret", "open", "secret")
    ]
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    asked(request, 5, OF_TOPIC)
    denied = told("Denied", "Describe", "Topic:LITERAL:secret", "ListOffsets", 2)
    assert lines() == [("INFO", denied)]

    asked(request, 5, OF_TOPIC)
    assert lines() == [], "like ones are counted for a minute"
    asked(DescribeGroupsRequest(groups=["secret", "open"]), 0, OF_GROUP)
    assert lines() == [
        ("INFO", told("Denied", "Describe", "Group:LITERAL:secret", "DescribeGroups"))
    ]


def test_what_is_granted_is_told_at_debug_alone(
    asked: Any, lines: Any, caplog: pytest.LogCaptureFixture
) -> None:
    request = DescribeGroupsRequest(groups=["open"])
    asked(request, 0)
    assert lines() == []
    caplog.set_level(logging.DEBUG, LOGGER)
    asked(request, 0)
    assert lines() == [
        ("DEBUG", told("Allowed", "Describe", "Group:LITERAL:open", "DescribeGroups"))
    ]


def test_what_is_only_left_out_or_allowed_by_another_right_is_told_at_trace(
    asked: Any, lines: Any, caplog: pytest.LogCaptureFixture
) -> None:
    everything = MetadataRequest(topics=None)
    half = InitProducerIdRequest(transactional_id=None, producer_id=5)  # refused behind it
    idempotent = AclOperation.IDEMPOTENT_WRITE, CLUSTER
    asked(everything, 9, OF_TOPIC)
    asked(ListGroupsRequest(), 1, OF_CLUSTER, OF_GROUP)
    asked(half, 3, idempotent)
    assert lines() == []
    asked(half, 3, idempotent, writers=False)
    assert lines() == [("INFO", told("Denied", "Write", "Topic:UNKNOWN:NONE", "InitProducerId", 0))]

    caplog.set_level(TRACE, LOGGER)
    asked(everything, 9, OF_TOPIC)
    asked(ListGroupsRequest(), 1, OF_CLUSTER)
    asked(half, 3, idempotent)
    assert lines() == [
        ("TRACE", told("Denied", "Describe", "Topic:LITERAL:secret", "Metadata")),
        ("TRACE", told("Denied", "Describe", "Cluster:LITERAL:kafka-cluster", "ListGroups")),
        ("TRACE", told("Denied", "IdempotentWrite", "Cluster:LITERAL:kafka-cluster",
                       "InitProducerId")),
        ("DEBUG", told("Allowed", "Write", "Topic:UNKNOWN:NONE", "InitProducerId", 0)),
    ]  # fmt: skip
    named = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="secret")])
    named.include_topic_authorized_operations = True
    asked(named, 9)
    levels = {level for level, line in lines() if "Operation = Describe " not in line}
    assert levels == {"TRACE"}, "what a client could do"


def test_lines_are_bounded_whatever_clients_name_and_denials_are_counted(lines: Any) -> None:
    time, counters = VirtualTime(), CounterRegistry()
    audit = AuditLog(time)
    audit.register(counters)
    connection = local_connection()
    connection.principal = "User:" + "a" * 1_000

    def deny(name: str) -> None:
        asked = AclOperation.READ, AclResource(AclResourceType.TOPIC, name)
        audit.note(connection, "Fetch", asked, Purpose.TO_DO, is_granted=False)

    for number in range(1_000):
        deny(f"{number}" + "x" * 1_000)
    found = [line for _, line in lines()]
    assert len(found) == 20
    assert max(map(len, found)) < 700
    time.advance(60_000)
    deny("again")
    ((_, line),) = lines()
    assert line.endswith("; similar lines left out: 980")
    assert counters.value(MetricName("kbroker.apis", "Authorizer", "Denials")) == 1_001
    (rate,) = (each for each in counters if each.name == "authorization-denied-rate-per-minute")
    assert 500 < counters.value(rate) < 1_001


def test_a_line_names_the_rule_that_decided(lines: Any) -> None:
    audit = AuditLog(VirtualTime(), lambda *asked: f"deny {asked[1].name}" + "x" * 1_000)
    audit.note(local_connection(), "Fetch", OF_TOPIC, Purpose.TO_DO, is_granted=False)
    ((_, line),) = lines()
    assert "resourceRefCount = 1 based on rule deny DESCRIBExxx" in line
    assert len(line) < 900


def test_its_level_is_set_as_that_of_any_logger_of_the_broker(lines: Any) -> None:
    def alter(operation: int, value: str | None) -> None:
        changes = [AlterableConfig(name=LOGGER, config_operation=operation, value=value)]
        validate_logger_changes(changes)
        alter_loggers(changes)

    audit, logger = AuditLog(VirtualTime()), logging.getLogger(LOGGER)
    level = logger.level
    try:
        alter(OP_SET, "WARN")
        audit.note(local_connection(), "Fetch", OF_TOPIC, Purpose.TO_DO, is_granted=False)
        assert lines() == []
        alter(OP_DELETE, None)
    finally:
        logger.setLevel(level)
