"""Questions to what is answered without much doing: access rules where nobody checks them, moves of
partitions, offsets that are forgotten, quotas, SCRAM credentials, topics page by page and what has
settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbroker.protocol.messages.create_acls import CreateAclsRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kbroker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.integration.admin_requests import INT_MAX, INT_MIN, KEPT_GROUP, Question, one

TOPIC_LISTS: dict[str, Sequence[tuple[str, Sequence[int]]]] = {
    "none": [],
    "one": [("plain", [0])],
    "no partitions": [("plain", [])],
    "unknown": [("no-such", [0, 1])],
    "unknown partition": [("plain", [99, -1])],
    "known and unknown": [("no-such", [0]), ("plain", [1, 77])],
    "twice": [("plain", [2, 2]), ("plain", [2])],
    "empty name": [("", [0])],
    "bad name": [("a b", [0])],
}
COMPONENTS: dict[str, Sequence[tuple[str, int, str | None]]] = {
    "none": [],
    "a user": [("user", 0, "nobody")],
    "the default user": [("user", 1, None)],
    "any user": [("user", 2, None)],
    "the default user, with a name": [("user", 1, "x")],
    "any user, with a name": [("user", 2, "x")],
    "a user without name": [("user", 0, None)],
    "an unknown match": [("user", 3, "x")],
    "a negative match": [("user", -1, "x")],
    "an unknown type": [("thing", 0, "x")],
    "an empty type": [("", 0, "x")],
    "user and client": [("user", 0, "x"), ("client-id", 0, "y")],
    "user twice": [("user", 0, "x"), ("user", 0, "y")],
    "user twice, the same": [("user", 0, "x"), ("user", 0, "x")],
    "client twice": [("client-id", 0, "x"), ("client-id", 1, None)],
    "an address": [("ip", 0, "127.0.0.1")],
    "an odd address": [("ip", 0, "not an ip")],
    "any address": [("ip", 2, None)],
    "address and user": [("ip", 0, "127.0.0.1"), ("user", 0, "x")],
    "address and client": [("client-id", 2, None), ("ip", 2, None)],
    "address twice": [("ip", 0, "127.0.0.1"), ("ip", 2, None)],
}


def answer_questions() -> Iterator[Question]:
    """All of them."""
    yield from _acls()
    yield from _reassignments()
    yield from _offsets_deleted()
    yield from _quotas()
    yield from _credentials()
    yield from _pages()
    yield from _config_resources()


def _acls() -> Iterator[Question]:
    for what, kind, operation, permission in (
        ("any", 1, 1, 1),
        ("topics", 2, 3, 3),
        ("of kind 0", 0, 1, 1),
        ("of kind 99", 99, 1, 1),
        ("operation 0", 1, 0, 1),
        ("permission 0", 1, 1, 0),
    ):
        wanted = {"operation": operation, "permission_type": permission}
        yield one(
            f"acls: describe {what}",
            lambda _, kind=kind, wanted=wanted: DescribeAclsRequest(
                resource_type_filter=kind,
                resource_name_filter=None,
                principal_filter=None,
                host_filter=None,
                **wanted,
            ),
        )
        one_filter = DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=kind,
            resource_name_filter=None,
            principal_filter=None,
            host_filter=None,
            **wanted,
        )
        yield one(
            f"acls: delete {what}",
            lambda _, one_filter=one_filter: DeleteAclsRequest(filters=[one_filter] * 2),
        )
        rule = CreateAclsRequest.AclCreation(
            resource_type=kind,
            resource_name="t",
            principal="User:x",
            host="*",
            **wanted,
        )
        yield one(
            f"acls: create {what}", lambda _, rule=rule: CreateAclsRequest(creations=[rule] * 2)
        )
    yield one("acls: create none", lambda _: CreateAclsRequest())
    yield one("acls: delete none", lambda _: DeleteAclsRequest())


def _reassignments() -> Iterator[Question]:
    yield one("moves: all", lambda _: ListPartitionReassignmentsRequest(topics=None))
    for what, topics in TOPIC_LISTS.items():
        yield one(
            f"moves: {what}",
            lambda _, topics=topics: ListPartitionReassignmentsRequest(
                topics=[
                    ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
                        name=name, partition_indexes=list(numbers)
                    )
                    for name, numbers in topics
                ]
            ),
        )
    for ms in (0, -1, INT_MAX):
        yield one(
            f"moves: time {ms}", lambda _, ms=ms: ListPartitionReassignmentsRequest(timeout_ms=ms)
        )


def _offsets_deleted() -> Iterator[Question]:
    for group in (KEPT_GROUP, "no-such-group", ""):
        for what, topics in TOPIC_LISTS.items():
            yield one(
                f"forget: {what} of {group or 'nobody'}",
                lambda _, group=group, topics=topics: forget(group, topics),
                lambda _, group=group: OffsetFetchRequest(group_id=group, topics=None),
            )


def forget(group: str, topics: Sequence[tuple[str, Sequence[int]]]) -> OffsetDeleteRequest:
    kind = OffsetDeleteRequest
    return kind(
        group_id=group,
        topics=[
            kind.OffsetDeleteRequestTopic(
                name=name,
                partitions=[kind.OffsetDeleteRequestPartition(partition_index=p) for p in numbers],
            )
            for name, numbers in topics
        ],
    )


def quotas(
    components: Sequence[tuple[str, int, str | None]], *, strict: bool = False
) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ],
        strict=strict,
    )


def _quotas() -> Iterator[Question]:
    for what, components in COMPONENTS.items():
        for strict in (False, True):
            yield one(
                f"quotas: {what}{', strict' * strict}",
                lambda _, components=components, strict=strict: quotas(components, strict=strict),
            )


def credentials(*names: str) -> DescribeUserScramCredentialsRequest:
    kind = DescribeUserScramCredentialsRequest
    return kind(users=[kind.UserName(name=name) for name in names])


def _credentials() -> Iterator[Question]:
    yield one("credentials: all", lambda _: DescribeUserScramCredentialsRequest(users=None))
    for what, names in {
        "none": [],
        "unknown": ["nobody"],
        "unknown ones": ["b", "a"],
        "empty name": [""],
        "twice": ["a", "a"],
        "twice, and another": ["b", "a", "a", "a"],
    }.items():
        yield one(f"credentials: {what}", lambda _, names=names: credentials(*names))


def page(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    kind = DescribeTopicPartitionsRequest
    return kind(
        topics=[kind.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else kind.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def _pages() -> Iterator[Question]:
    for what, names in {
        "one": ["plain"],
        "two": ["plain", "dot.ted"],
        "twice": ["plain", "plain"],
        "unknown": ["no-such"],
        "unknown and known": ["plain", "no-such", "dot.ted"],
        "unknown twice": ["zz", "no-such", "zz"],
        "empty name": [""],
        "bad name": ["a b"],
        "internal": ["__consumer_offsets"],
    }.items():
        yield one(f"page: {what}", lambda _, names=names: page(*names))
    both = ("plain", "dot.ted")
    for limit in (0, -1, 1, 2, 3, 4, 5, INT_MAX, INT_MIN):
        yield one(f"page: limit {limit}", lambda _, limit=limit: page(*both, limit=limit))
        yield one(
            f"page: limit {limit}, unknown between",
            lambda _, limit=limit: page("dot.ted", "no-such", "plain", limit=limit),
        )
    yield one("page: all, the first ones", lambda _: page(limit=4))
    for cursor in (
        ("plain", 0), ("plain", 1), ("plain", 2), ("plain", 3), ("plain", 99), ("plain", -1),
        ("dot.ted", 0), ("dot.ted", 1), ("e", 0), ("e", 7), ("zz", 0), ("", 0), ("a b", 0),
        ("no-such", 0), ("no-such", 1),
    ):  # fmt: skip
        yield one(f"page: from {cursor}", lambda _, cursor=cursor: page(*both, cursor=cursor))
        yield one(
            f"page: from {cursor}, limit 1",
            lambda _, cursor=cursor: page(*both, "no-such", cursor=cursor, limit=1),
        )
    # Not so far that the page comes to topics of other questions.
    for cursor in (
        ("", 0),
        ("a b", 0),
        ("dot.ted", 0),
        ("dot.ted", 1),
        ("plain", 0),
        ("plain", -1),
    ):
        yield one(f"page: all from {cursor}", lambda _, cursor=cursor: page(cursor=cursor, limit=2))


def _config_resources() -> Iterator[Question]:
    for kinds in (
        (4,),
        (8,),
        (16,),
        (32,),
        (4, 8),
        (8, 4, 16, 32),
        (4, 4),
        (1,),
        (0,),
        (-1,),
        (64,),
        (4, 1),
    ):
        yield one(
            f"resources: {kinds}",
            lambda _, kinds=kinds: ListConfigResourcesRequest(resource_types=list(kinds)),
        )
