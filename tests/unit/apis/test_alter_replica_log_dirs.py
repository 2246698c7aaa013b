"""AlterReplicaLogDirs and what DescribeLogDirs shows of it; the moves are tried with the mover."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.apis.alter_replica_log_dirs import handle
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kbroker.replication.reads.log_dirs import LogDirs
from kbroker.turns import ENTRIES
from tests.fakes.brokers.moving_broker import A, B, MovingBroker
from tests.fakes.clusters.replication_cluster import ReplicationCluster
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.denying_authorizer import ask, services_without
from tests.fakes.running.loop_turns import counting_turns

Wanted = tuple[str, str, list[int]]
Answer = dict[tuple[str, int], int]


def request_of(*wanted: Wanted) -> AlterReplicaLogDirsRequest:
    """`wanted` are (path, topic, partitions)."""
    kind = AlterReplicaLogDirsRequest
    return kind(
        dirs=[
            kind.AlterReplicaLogDir(
                path=path, topics=[kind.AlterReplicaLogDirTopic(name=topic, partitions=numbers)]
            )
            for path, topic, numbers in wanted
        ]
    )


def codes(answer: Any) -> Answer:
    return {
        (topic.topic_name, row.partition_index): row.error_code
        for topic in answer.results
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_each_partition_has_its_answer(version: int) -> None:
    broker = MovingBroker()
    broker.lead()
    services: Any = SimpleNamespace(replicas=SimpleNamespace(log_dir_moves=broker.moves))
    context: Any = SimpleNamespace(services=services, api_version=version)

    answer = await handle(
        context, request_of((B, "t", [0, 1]), ("/no", "u", [0]), ("/no", "t", [2]))
    )

    assert codes(answer) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 2): ErrorCode.LOG_DIR_NOT_FOUND,
        ("u", 0): ErrorCode.LOG_DIR_NOT_FOUND,
    }
    await broker.settle()
    await broker.stop()


async def test_of_a_partition_that_is_named_twice_the_last_directory_counts() -> None:
    broker = MovingBroker()
    broker.lead()
    services: Any = SimpleNamespace(replicas=SimpleNamespace(log_dir_moves=broker.moves))
    context: Any = SimpleNamespace(services=services, api_version=2)

    answer = await handle(context, request_of((B, "t", [0]), (A, "t", [0])))

    assert codes(answer) == {("t", 0): ErrorCode.NONE}
    assert broker.logs.all_futures() == []
    await broker.stop()


async def test_others_are_answered_while_many_partitions_are_looked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    broker, count = MovingBroker(), 8 * ENTRIES
    broker.lead()
    services: Any = SimpleNamespace(replicas=SimpleNamespace(log_dir_moves=broker.moves))
    context: Any = SimpleNamespace(services=services, api_version=2)
    wanted = request_of((A, "t", [0]), ("/no", "t", list(range(1, count))))

    answer, turns = await counting_turns(handle(context, wanted))

    refused = {("t", number): ErrorCode.LOG_DIR_NOT_FOUND for number in range(1, count)}
    assert codes(answer) == {("t", 0): ErrorCode.NONE, **refused}
    assert turns >= 2 * 8
    await broker.stop()


@pytest.mark.parametrize("version", [1, 2])
async def test_who_may_not_alter_the_cluster_may_not_move_its_replicas(
    cluster: ReplicationCluster, call: ApiCaller, version: int
) -> None:
    cluster.lead("t")
    services = services_without(call.services, (AclOperation.ALTER, CLUSTER))

    answer = await ask(services, request_of((B, "t", [0])), version)

    assert codes(answer) == {("t", 0): ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


async def test_a_replica_that_moves_is_shown_in_both_directories() -> None:
    broker = MovingBroker()
    partition = broker.lead()
    broker.append(partition, *(b"v" * 100_000 for _ in range(20)))
    await broker.alter(B)
    for _ in range(6):
        await broker.sleep(0)
    (future,) = broker.logs.all_futures()

    home, target = LogDirs(broker.hosted, broker.logs).describe({TopicPartition("t", 0)})

    ((whole,), (copy,)) = home.replicas, target.replicas
    assert (whole.is_future, whole.offset_lag) == (False, 0)
    assert (copy.is_future, copy.offset_lag) == (True, 20 - future.log_end_offset)
    assert 0 < copy.size_bytes < whole.size_bytes
    assert 0 < copy.offset_lag < 20
    await broker.stop()


async def test_refusals_of_many_partitions_leave_a_line_for_each_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = MovingBroker()
    services: Any = SimpleNamespace(replicas=SimpleNamespace(log_dir_moves=broker.moves))
    context: Any = SimpleNamespace(services=services, api_version=2)

    await handle(context, request_of(("/no", "t", list(range(1_000)))))
    await handle(context, request_of(("/no", "u", [0]), ("/no", "t", [0])))

    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if "is not moved" in line] == [
        "t-0 is not moved to /no: LOG_DIR_NOT_FOUND: Log dir /no is not found in the config.",
        "u-0 is not moved to /no: LOG_DIR_NOT_FOUND: Log dir /no is not found in the config.",
    ]
