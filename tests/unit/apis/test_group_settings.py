"""Settings of groups, by all requests about settings, once consumer groups are served."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.admin.group_config_manager import GroupConfigManager
from kbroker.apis.alter_configs import handle as replace_settings
from kbroker.apis.describe_configs import handle as describe
from kbroker.apis.incremental_alter_configs import handle as alter
from kbroker.apis.list_config_resources import handle as list_resources
from kbroker.config.consumer_group_config import ConsumerGroupConfig
from kbroker.config.group_settings import ConsumerGroupSettings
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.alter_configs import AlterConfigsRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.requests.denying_authorizer import ask, services_without

TOPIC, GROUP = 2, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
DEFAULTS = ConsumerGroupSettings(45_000, 5000, 1000)


def changes(
    group: str, *settings: tuple[str, int, str | None], check: bool = False
) -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=GROUP,
        resource_name=group,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(
                name=name, config_operation=operation, value=value
            )
            for name, operation, value in settings
        ],
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=check)


def question(*groups: str, **facts: Any) -> DescribeConfigsRequest:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[resource(resource_type=GROUP, resource_name=group) for group in groups], **facts
    )


async def change(client: AdminClient, *args: Any, **facts: Any) -> tuple[int, str | None]:
    (answer,) = (await client.ask(alter, changes(*args, **facts), 1)).responses
    return answer.error_code, answer.error_message


async def described(client: AdminClient, group: str) -> dict[str, tuple[str, int]]:
    (result,) = (await client.ask(describe, question(group), 4)).results
    assert (result.error_code, result.resource_type, result.resource_name) == (0, GROUP, group)
    return {row.name: (row.value, row.config_source) for row in result.configs}


async def listed(client: AdminClient) -> list[str]:
    answer = await client.ask(list_resources, ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    return sorted(each.resource_name for each in answer.config_resources)


@pytest.mark.parametrize("group", ["g", "Ünïcode / with a slash", "<default>", "%41", " "])
async def test_a_group_of_any_name_keeps_what_it_sets_until_it_takes_it_back(
    client: AdminClient, group: str
) -> None:
    plain = {ASSIGNMENT: ("1000", 5), HEARTBEAT: ("5000", 5), SESSION: ("45000", 5)}
    assert await described(client, group) == plain

    assert await change(client, group, (SESSION, SET, "50000"), (ASSIGNMENT, SET, "7")) == (0, None)
    assert await described(client, group) == {
        **plain, SESSION: ("50000", 8), ASSIGNMENT: ("7", 8),
    }  # fmt: skip
    assert await listed(client) == [group]

    assert await change(client, group, (SESSION, DELETE, None), (ASSIGNMENT, DELETE, None)) == (
        0, None,
    )  # fmt: skip
    assert await described(client, group) == plain
    assert await listed(client) == []
    assert await client.broker.zk.tree.children("/config/groups") == []


async def test_all_settings_of_a_group_are_replaced_and_a_check_changes_nothing(
    client: AdminClient,
) -> None:
    await change(client, "g", (SESSION, SET, "50000"))
    await change(client, "g", (ASSIGNMENT, SET, "7"), check=True)
    setting = AlterConfigsRequest.AlterableConfig(name=HEARTBEAT, value="6000")
    wanted = AlterConfigsRequest.AlterConfigsResource(
        resource_type=GROUP, resource_name="g", configs=[setting]
    )

    (answer,) = (
        await client.ask(replace_settings, AlterConfigsRequest(resources=[wanted]), 2)
    ).responses

    assert answer.error_code == 0
    assert await client.broker.configs.group_overrides("g") == {HEARTBEAT: "6000"}


REFUSED = [
    ("", (SESSION, SET, "50000"), 42, "Default group resources are not allowed."),
    (
        "..", (SESSION, SET, "50000"), 42,
        "A group named .. cannot have settings: no node can have this name.",
    ),
    ("g", (SESSION, APPEND, "1"), 40, f"Can't APPEND to key {SESSION} because its type is not LIST."),
    ("g", ("x", SUBTRACT, "1"), 40, "Can't SUBTRACT to key x because its type is not LIST."),
    ("g", ("x", SET, "1"), 40, "Unknown group config name: x"),
    (
        "g", (SESSION, SET, "1"), 40,
        f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms",
    ),
    ("g", (SESSION, SET, None), 42, f"Null value not supported for : {SESSION}"),
]  # fmt: skip


@pytest.mark.parametrize(("group", "setting", "code", "message"), REFUSED)
async def test_what_a_group_cannot_have_is_not_stored(
    client: AdminClient, group: str, setting: tuple[str, int, str], code: int, message: str
) -> None:
    assert await change(client, group, setting) == (code, message)
    assert await listed(client) == []


async def test_a_group_without_a_name_is_not_described_and_spoils_no_other(
    client: AdminClient,
) -> None:
    answers = (await client.ask(describe, question("", "..", "g"), 4)).results

    assert [(each.error_code, each.error_message) for each in answers] == [
        (ErrorCode.INVALID_REQUEST, "Group name must not be empty"), (0, ""), (0, ""),
    ]  # fmt: skip


async def test_a_setting_of_a_later_release_stays_and_hinders_no_change(
    client: AdminClient,
) -> None:
    later = {"later.setting": "1", SESSION: "soon"}
    await ZkEntityConfigs(client.broker.zk).update("groups", "g", lambda _: later)

    assert await change(client, "g", (ASSIGNMENT, SET, "7")) == (
        40, f"Invalid value soon for configuration {SESSION}: Not a number of type INT",
    )  # fmt: skip
    assert await change(client, "g", (SESSION, SET, "50000")) == (0, None)
    assert await client.broker.configs.group_overrides("g") == {**later, SESSION: "50000"}


async def test_who_may_not_see_or_change_a_groups_settings_is_refused(client: AdminClient) -> None:
    group = AclResource(AclResourceType.GROUP, "g")
    services = services_without(
        client.services, (AclOperation.DESCRIBE_CONFIGS, group), (AclOperation.ALTER_CONFIGS, group)
    )
    codes = []
    for request in (question("g", "h"), changes("g", (SESSION, SET, "50000"))):
        answer = await ask(services, request, 1)
        rows = answer.results if hasattr(answer, "results") else answer.responses
        codes.append({row.resource_name: row.error_code for row in rows})

    assert codes == [{"g": 30, "h": 0}, {"g": 30}]
    assert await listed(client) == []


async def test_every_broker_hears_of_groups_settings_at_its_start_and_of_each_change(
    client: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    zk = client.broker.zk
    await change(client, "a/b", (SESSION, SET, "50000"))
    await ZkEntityConfigs(zk).update("groups", "odd", lambda _: {SESSION: "1", HEARTBEAT: "x"})
    known = GroupConfigManager(ConsumerGroupConfig)
    manager = DynamicConfigManager(zk, client.broker.cluster.clock)
    known.follow(manager)

    with caplog.at_level(logging.ERROR):
        await manager.start()
    at_start = [known.of_group(name) for name in ("a/b", "odd", "other")]
    await change(client, "new", (HEARTBEAT, SET, "6000"))
    await change(client, "a/b", (SESSION, DELETE, None))
    await client.broker.cluster.settle()
    await manager.stop()

    assert at_start == [DEFAULTS._replace(session_timeout_ms=50_000), DEFAULTS, DEFAULTS]
    assert known.of_group("new") == DEFAULTS._replace(heartbeat_interval_ms=6000)
    assert known.of_group("a/b") == DEFAULTS
    assert f"ignoring a setting of group odd: Invalid value x for configuration {HEARTBEAT}" in (
        caplog.text
    )
    assert f"{SESSION} of group odd is 1, outside of 45000 to 60000" in caplog.text
