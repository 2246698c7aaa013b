"""Questions of topics: names, counts, assignments by hand, doubles, times."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.integration.admin_requests import (
    BAD_NAMES,
    BROKER_ID,
    INT_MIN,
    TIMEOUT_MS,
    TIMES,
    Question,
    create,
    delete,
    grow,
    growth,
    one,
    topic,
)

SOME_ID = UUID("00000000-0000-4000-8000-00000000abcd")


def topic_questions() -> Iterator[Question]:
    """All of them."""
    yield from _created()
    yield from _created_by_hand()
    yield from _deleted()
    yield from _grown()


def _created() -> Iterator[Question]:
    for what, name in BAD_NAMES.items():
        yield one(f"create: {what}", lambda _, name=name: create(topic(name)))
        yield one(
            f"create: {what}, only validated",
            lambda _, name=name: create(topic(name), validate_only=True),
        )
    for partitions, factor in (
        (0, 1),
        (-1, -1),
        (-2, 1),
        (INT_MIN, 1),
        (1, 0),
        (1, -2),
        (1, 2),
        (10_001, 1),
        (1, 32767),
    ):
        yield one(
            f"create: {partitions} partitions, factor {factor}",
            lambda t, p=partitions, f=factor: create(topic(t, p, f), validate_only=True),
        )
    yield one("create: none", lambda _: create())
    yield one("create: one", lambda t: create(topic(t)))
    yield one("create: one twice", lambda t: create(topic(t), topic(t)))
    yield one(
        "create: one twice beside a good one", lambda t: create(topic(t), topic(t), topic(f"{t}x"))
    )
    yield one("create: two that collide", lambda t: create(topic(f"{t}.x"), topic(f"{t}_x")))
    yield one(
        "create: two that collide, only validated",
        lambda t: create(topic(f"{t}.x"), topic(f"{t}_x"), validate_only=True),
    )
    yield one("create: one that is there", lambda _: create(topic("plain")))
    yield one(
        "create: one that is there, only validated",
        lambda _: create(topic("plain"), validate_only=True),
    )
    yield one("create: one that is there, with bad counts", lambda _: create(topic("plain", 0, 9)))
    yield one("create: bad name and bad counts", lambda _: create(topic("a b", 0, 9)))
    yield one(
        "create: bad counts and bad settings", lambda t: create(topic(t, 0, 1, [("no.such", "1")]))
    )
    for what, ms in TIMES.items():
        yield one(
            f"create: time {what}, only validated",
            lambda t, ms=ms: create(topic(t), timeout_ms=ms, validate_only=True),
        )
    yield one("create: time 0", lambda t: create(topic(t), timeout_ms=0))
    yield one("create: time -1", lambda t: create(topic(t), timeout_ms=-1))


def _created_by_hand() -> Iterator[Question]:
    for what, given in {
        "unknown broker": [(0, [99])],
        "unknown broker second": [(0, [BROKER_ID, 99])],
        "negative broker": [(0, [-1])],
        "broker twice": [(0, [BROKER_ID, BROKER_ID])],
        "a gap": [(0, [BROKER_ID]), (2, [BROKER_ID])],
        "from 1": [(1, [BROKER_ID])],
        "negative partition": [(-1, [BROKER_ID])],
        "a partition twice": [(0, [BROKER_ID]), (0, [BROKER_ID])],
        "no replica": [(0, [])],
        "one without replica": [(0, [BROKER_ID]), (1, [])],
        "factors differ": [(0, [BROKER_ID]), (1, [BROKER_ID, 99])],
        "good": [(1, [BROKER_ID]), (0, [BROKER_ID])],
    }.items():
        yield one(
            f"create: by hand, {what}",
            lambda t, given=given: create(topic(t, -1, -1, assignments=given), timeout_ms=300),
        )
        yield one(
            f"create: by hand, {what}, only validated",
            lambda t, given=given: create(topic(t, -1, -1, assignments=given), validate_only=True),
        )
    for partitions, factor in ((1, -1), (-1, 1), (1, 1), (0, 0), (0, -1)):
        yield one(
            f"create: by hand and {partitions} partitions, factor {factor}",
            lambda t, p=partitions, f=factor: create(
                topic(t, p, f, assignments=[(0, [BROKER_ID])])
            ),
        )
    yield one(
        "create: by hand, 10,001 partitions",
        lambda t: create(
            topic(t, -1, -1, assignments=[(n, [BROKER_ID]) for n in range(10_001)]),
            validate_only=True,
        ),
    )


def _deleted() -> Iterator[Question]:
    yield one("delete: none", lambda _: delete())
    yield one("delete: one", delete, makes=True)
    yield one("delete: one twice", lambda t: delete(t, t), makes=True)
    yield one("delete: one and an unknown one", lambda t: delete(t, "no-such"), makes=True)
    yield one("delete: an unknown one twice", lambda _: delete("no-such", "no-such"))
    for what, name in BAD_NAMES.items():
        if what not in ("internal",):
            yield one(f"delete: {what}", lambda _, name=name: delete(name))
    yield one("delete: unknown id", lambda _: delete(ids=[SOME_ID]))
    yield one("delete: unknown id twice", lambda _: delete(ids=[SOME_ID, SOME_ID]))
    yield one("delete: neither name nor id", lambda _: delete(ids=[UUID(int=0)]))
    yield one(
        "delete: name and id",
        lambda t: DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=t, topic_id=SOME_ID)],
            topic_names=[t], timeout_ms=TIMEOUT_MS,
        ),
        makes=True,
    )  # fmt: skip
    for what, ms in (("0", 0), ("-1", -1)):
        yield one(f"delete: time {what}", lambda t, ms=ms: delete(t, timeout_ms=ms), makes=True)
        yield one(
            f"delete: unknown, time {what}", lambda _, ms=ms: delete("no-such", timeout_ms=ms)
        )


def _grown() -> Iterator[Question]:
    yield one("grow: none", lambda _: CreatePartitionsRequest(topics=[], timeout_ms=TIMEOUT_MS))
    for what, name in BAD_NAMES.items():
        yield one(f"grow: {what}", lambda _, name=name: grow(name, 200, validate_only=True))
    for count in (0, -1, 1, 10_002):
        yield one(
            f"grow: to {count}", lambda t, n=count: grow(t, n, validate_only=True), makes=True
        )
    yield one("grow: to 2", lambda t: grow(t, 2), makes=True)
    yield one("grow: time 0", lambda t: grow(t, 2, timeout_ms=0), makes=True)
    yield one("grow: time -1", lambda t: grow(t, 2, timeout_ms=-1), makes=True)
    yield one(
        "grow: time 0, only validated",
        lambda t: grow(t, 2, timeout_ms=0, validate_only=True),
        makes=True,
    )
    yield one(
        "grow: one twice",
        lambda t: CreatePartitionsRequest(
            topics=[growth(t, 2), growth(t, 3)], timeout_ms=TIMEOUT_MS
        ),
        makes=True,
    )
    yield one(
        "grow: an unknown one twice",
        lambda _: CreatePartitionsRequest(topics=[growth("no-such", 2)] * 2, timeout_ms=TIMEOUT_MS),
    )
    yield one("grow: unknown", lambda _: grow("no-such", 2))
    for what, given in {
        "empty": [],
        "good": [[BROKER_ID]],
        "too many": [[BROKER_ID], [BROKER_ID]],
        "unknown broker": [[99]],
        "negative broker": [[-1]],
        "broker twice": [[BROKER_ID, BROKER_ID]],
        "no replica": [[]],
        "other factor": [[BROKER_ID, 99]],
    }.items():
        yield one(
            f"grow: by hand, {what}",
            lambda t, a=given: grow(t, 2, a, validate_only=True),
            makes=True,
        )
