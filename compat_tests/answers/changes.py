"""What changes while a request waits: records come and go, a topic is deleted or made, its settings
change, another connection uses the same session.

Every function takes a `Caller`; what happens is the same for every broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from compat_tests.answers.asking import LONG_WAIT_MS, Caller
from compat_tests.answers.parts import EMPTY, Values, fetch, one, partition, topic
from compat_tests.running.waiting import until
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import (
    DELETE_RECORDS,
    DELETE_TOPICS,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    WireClient,
)

TopicChange = Callable[[WireClient, str], object]
VERSIONS = (11, 13)


def while_it_waits(caller: Caller) -> None:
    """A fetch at the end of a topic, or one that wants more than there is, sees a change."""
    for name, change in _CHANGES.items():
        for version in VERSIONS:
            for what, offset, min_bytes in _waits(name):
                own = f"changed-{name.replace(' ', '-')}-{version}-{offset}"
                _make(caller, own)
                request = fetch(
                    caller, version, one(caller, version, own, offset), min_bytes=min_bytes,
                    max_wait=LONG_WAIT_MS,
                )  # fmt: skip
                label = f"{name} while a fetch waits for {what}"
                happens = partial(change, name=caller.names.on_broker(own))
                caller.ask_while(label, happens, FETCH, version, **request)


def beside_what_changes(caller: Caller) -> None:
    """The topic that changes is not the only one asked for."""
    for name in ("deletion", "deleted records", "an append"):
        for version in VERSIONS:
            own = f"beside-{name.replace(' ', '-')}-{version}"
            _make(caller, own)
            topics = (one(caller, version, EMPTY), one(caller, version, own, 2))
            request = fetch(caller, version, *topics, max_wait=LONG_WAIT_MS)
            label = f"{name} beside an idle partition"
            change = partial(_CHANGES[name], name=caller.names.on_broker(own))
            caller.ask_while(label, change, FETCH, version, **request)


def one_session_of_two_connections(caller: Caller) -> None:
    for version in (7, 12, 13, 17):
        idle = one(caller, version, EMPTY)
        first = fetch(caller, version, idle, session_epoch=0, max_wait=0)
        made = caller.ask("shared session", FETCH, version, **first)
        session = {"session_id": made.session_id if made is not None else 0}
        for epoch, what, by in ((1, "overtaken", 2), (3, "closed by the other", -1)):
            waits = fetch(caller, version, session_epoch=epoch, max_wait=LONG_WAIT_MS, **session)
            other = fetch(caller, version, session_epoch=by, max_wait=0, **session)
            caller.ask_while(
                f"shared session, {what}", partial(_call, version=version, request=other),
                FETCH, version, **waits,
            )  # fmt: skip


def session_of_a_topic_that_changes(caller: Caller) -> None:
    """Made, deleted and created again under a session's feet."""
    for version in (7, 12, 13, 17):
        own = f"session-of-{version}"
        _make(caller, own)
        both = (one(caller, version, own, 2), one(caller, version, EMPTY))
        made = caller.ask(
            "session of a topic to be deleted", FETCH, version,
            **fetch(caller, version, *both, session_epoch=0, max_wait=0),
        )  # fmt: skip
        session: Values = {"session_id": made.session_id if made is not None else 0, "max_wait": 0}
        with caller.beside() as client:
            known = caller.names.on_broker(own)
            _delete_topic(client, known)
            until(lambda: client.fetch(known, 2).error_code.value, f"{known} is gone")  # noqa: B023
            again = fetch(caller, version, session_epoch=1, **session)
            caller.ask("session: after the deletion", FETCH, version, **again)
            _make(caller, own)
            again = fetch(caller, version, session_epoch=2, **session)
            caller.ask("session: made again", FETCH, version, **again)
            again = fetch(caller, version, session_epoch=3, **session)
            caller.ask("session: made again, once more", FETCH, version, **again)
            topics = (one(caller, version, own, 2),)
            again = fetch(caller, version, *topics, session_epoch=4, **session)
            caller.ask("session: asks for the new one", FETCH, version, **again)
            _delete_topic(client, known)


def sessions_read_in_turn(caller: Caller) -> None:
    """A session goes on with the partitions that got nothing the last time."""
    for version in (7, 12, 13, 17):
        own = f"in-turn-{version}"
        _make(caller, own, partitions=3)
        wanted = [partition(caller, version, partition=index) for index in range(3)]
        request = fetch(
            caller, version, topic(caller, version, own, *wanted), session_epoch=0, max_bytes=1
        )
        made = caller.ask("in turn", FETCH, version, **request)
        session = {"session_id": made.session_id if made is not None else 0}
        for epoch in range(1, 5):
            request = fetch(caller, version, session_epoch=epoch, max_bytes=1, **session)
            caller.ask(f"in turn, request {epoch}", FETCH, version, **request)


ALL = (
    while_it_waits, beside_what_changes, one_session_of_two_connections,
    session_of_a_topic_that_changes, sessions_read_in_turn,
)  # fmt: skip


def _waits(change: str) -> Iterator[tuple[str, int, int]]:
    """(what a fetch waits for, its offset, its least bytes). One that the first of two appends wakes
    may be answered before the second or after it: only that it waits for both is sure.
    """
    yield ("both", 2, 2 * len(batch())) if change == "two appends" else ("the end", 2, 1)
    yield "more", 0, 1 << 20


def _make(caller: Caller, name: str, partitions: int = 1) -> None:
    """A topic with two batches in each partition."""
    caller.names.own.add(name)
    known = caller.names.on_broker(name)
    with caller.beside() as client:
        while client.create_topics({"name": known, "num_partitions": partitions}) != ["0"]:
            time.sleep(0.05)  # one of that name is still being deleted
        client.wait_for_topic(known, partitions)
        for index in range(partitions):
            for _ in range(2):
                append = partial(client.produce, known, batch(), partition=index)
                until(lambda: append().startswith("0; "), f"{known} is led")  # noqa: B023
        described = client.call(METADATA, 10, topics=[{"name": known}])
    caller.names.ids[name] = described.topics[0].topic_id


def _call(client: WireClient, version: int, request: Values) -> None:
    client.call(FETCH, version, **request)


def _nothing(client: WireClient, name: str) -> None:
    pass


def _append(client: WireClient, name: str) -> None:
    client.produce(name, batch())


def _append_two(client: WireClient, name: str) -> None:
    _append(client, name)
    _append(client, name)


def _delete_topic(client: WireClient, name: str) -> None:
    client.call(DELETE_TOPICS, 5, topic_names=[name], timeout=10_000)


def _delete_records(client: WireClient, name: str) -> None:
    wanted = [{"partition_index": 0, "offset": 2}]
    client.call(
        DELETE_RECORDS, 1, topics=[{"name": name, "partitions": wanted}], timeout=10_000
    )  # fmt: skip


def _change_a_setting(client: WireClient, name: str) -> None:
    change = {"name": "retention.ms", "config_operation": 0, "value": "123456789"}
    resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
    client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])


_CHANGES: dict[str, TopicChange] = {
    "nothing": _nothing,
    "an append": _append,
    "two appends": _append_two,
    "deletion": _delete_topic,
    "deleted records": _delete_records,
    "a setting": _change_a_setting,
}
