"""What members of consumer groups and those who look at them send, and what comes of it as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from compat_tests.clients.raw_connection import ClosedError, SilenceError
from compat_tests.wire.group_member import subscription
from compat_tests.wire.wire_client import (
    ADD_OFFSETS_TO_TXN,
    CREATE_PARTITIONS,
    DELETE_GROUPS,
    DELETE_TOPICS,
    DESCRIBE_GROUPS,
    END_TXN,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    WireClient,
)

CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 68, 69
SILENT_S = 3.0
TOPICS = {"t1": 1, "t2": 2, "t3": 3, "t6": 6}  # of all sequences, with their partitions

OF_BOTH = ("change: ", "mixed: ", "back: ")  # sequences with members of both protocols

Owned = dict[str, list[int]]
Epoch = int | str | None


@dataclass
class Stage:
    """A broker, the group of the sequence that is played, and what its members were answered."""

    bootstrap: str
    wire: WireClient
    group: str
    settles_s: float
    topic_ids: dict[str, UUID]
    counts: bool = False  # only how many partitions: whose they are depends on ids that are drawn
    ids: dict[str, str] = field(default_factory=dict)  # by who a member is in the sequence
    epochs: dict[str, int] = field(default_factory=dict)
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    assignments: dict[str, bytes] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """A name of the sequence as the broker gets it."""
        return text.replace("{g}", self.group)

    def shown(self, text: object) -> str:
        """Return an answer with names as in the sequence."""
        told = str(text)
        for who, member_id in self.ids.items():
            if len(member_id) > len(who):
                told = told.replace(member_id, f"<{who}>")
        return told.replace(self.group, "{g}")

    def call(self, key: int, version: int, /, **values: Any) -> Any:
        """Ask; a connection that was closed, or is silent, is made anew."""
        try:
            return self.wire.call(key, version, **values)
        except (ClosedError, SilenceError, TimeoutError):
            self.wire.close()
            self.wire = WireClient(self.bootstrap, SILENT_S)
            raise

    def epoch(self, who: str | None, said: Epoch) -> int:
        """The epoch that was said: that of the last answer, a number, or one beside (`+1`)."""
        known = self.epochs.get(who or "", -1)
        if isinstance(said, str):
            return known + int(said)
        return known if said is None else said

    def id_of(self, topic: str) -> UUID:
        """The id of a topic; one that is unknown, for a name that is."""
        return self.topic_ids.get(self.named(topic), UUID(int=77))

    def places(self, topics: Iterable[Any] | None) -> str:
        """`t2:0,1 t3:0` of partitions by the ids of their topics."""
        names = {each: name for name, each in self.topic_ids.items()}
        if topics is None:
            return "-"
        found = sorted((names.get(t.topic_id, "?"), sorted(t.partitions)) for t in topics)
        if self.counts:
            return self.shown(" ".join(f"{name}*{len(parts)}" for name, parts in found))
        return self.shown(" ".join(f"{name}:{','.join(map(str, parts))}" for name, parts in found))


Step = Callable[[Stage], str]


def _code(answer: Any) -> str:
    message = getattr(answer, "error_message", None)
    return f"{int(answer.error_code)} {message}" if message else f"{int(answer.error_code)}"


def beat(
    who: str, epoch: Epoch = None, *, version: int = 1, member_id: str | None = None,
    owned: Owned | None = None, topics: list[str] | None = None, **fields: Any,
) -> Step:  # fmt: skip
    """ConsumerGroupHeartbeat, in the epoch of the last answer unless another is given."""

    def step(stage: Stage) -> str:
        sent = stage.ids.get(who, who) if member_id is None else member_id
        held = None
        if owned is not None:
            held = [{"topic_id": stage.id_of(t), "partitions": p} for t, p in owned.items()]
        values = {
            "group_id": stage.group, **fields, "member_id": sent,
            "member_epoch": stage.epoch(who, epoch),
            "subscribed_topic_names": None if topics is None else [*map(stage.named, topics)],
            "topic_partitions": held,
        }  # fmt: skip
        answer = stage.call(CONSUMER_HEARTBEAT, version, **values)
        if int(answer.error_code) == 0:
            stage.epochs[who] = answer.member_epoch
            if answer.member_id:
                stage.ids[who] = answer.member_id
        given = stage.places(answer.assignment and answer.assignment.topic_partitions)
        interval = int(answer.heartbeat_interval.total_seconds() * 1000)
        member = stage.shown(answer.member_id)
        return f"{stage.shown(_code(answer))} {member} e{answer.member_epoch} {interval} {given}"

    return step


def join(who: str, *topics: str, **fields: Any) -> Step:
    """The first heartbeat of a member that is as it should be."""
    facts: dict[str, Any] = {"rebalance_timeout": 30_000, "owned": {}, **fields}
    return beat(who, 0, topics=list(topics), **facts)


def describe(version: int = 1, group: str = "{g}") -> Step:
    """ConsumerGroupDescribe; ids of members are in its order, which is none."""

    def step(stage: Stage) -> str:
        asked = [stage.named(group)]
        (found,) = stage.call(CONSUMER_DESCRIBE, version, group_ids=asked).groups
        members = sorted(
            stage.shown(
                f"{m.member_id} {m.instance_id} {m.rack_id} e{m.member_epoch} {m.client_host}"
                f" {sorted(m.subscribed_topic_names)} {m.subscribed_topic_regex}"
                f" [{stage.places(m.assignment.topic_partitions)}]"
                f" [{stage.places(m.target_assignment.topic_partitions)}]"
                f" {getattr(m, 'member_type', '')}"
            )
            for m in found.members
        )
        said = f"{stage.shown(_code(found))} {found.group_state} g{found.group_epoch}"
        return "; ".join([f"{said} a{found.assignment_epoch} {found.assignor_name}", *members])

    return step


def describe_classic(version: int = 6) -> Step:
    """DescribeGroups."""

    def step(stage: Stage) -> str:
        (found,) = stage.call(DESCRIBE_GROUPS, version, groups=[stage.group]).groups
        members = sorted(stage.shown(f"{m.member_id} {m.client_id}") for m in found.members)
        said = f"{stage.shown(_code(found))} {found.group_state} {found.protocol_type}"
        return "; ".join([f"{said} {found.protocol_data}", *members])

    return step


def listed(version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Step:
    """ListGroups, as far as it is about the group of the sequence."""

    def step(stage: Stage) -> str:
        filters = {"states_filter": states} if version >= 4 else {}
        if version >= 5:
            filters["types_filter"] = types
        answer = stage.call(LIST_GROUPS, version, **filters)
        own = [
            f"{g.protocol_type} {getattr(g, 'group_state', '')} {getattr(g, 'group_type', '')}"
            for g in answer.groups
            if g.group_id == stage.group
        ]
        return f"{int(answer.error_code)} {own}"

    return step


def commit(
    who: str = "", epoch: Epoch = None, *, version: int = 9, place: str = "t3:0", at: int = 5,
    instance: str | None = None,
) -> Step:  # fmt: skip
    """OffsetCommit of one partition."""

    def step(stage: Stage) -> str:
        topic, _, partition = place.partition(":")
        part = {"partition_index": int(partition), "committed_offset": at, "committed_metadata": ""}
        wanted = {"name": stage.named(topic)} if version < 10 else {"topic_id": stage.id_of(topic)}
        named = {} if version < 7 else {"group_instance_id": instance}
        answer = stage.call(
            OFFSET_COMMIT, version, group_id=stage.group, member_id=stage.ids.get(who, who),
            generation_id_or_member_epoch=stage.epoch(who, epoch),
            topics=[{**wanted, "partitions": [part]}], **named,
        )  # fmt: skip
        return " ".join(str(int(p.error_code)) for t in answer.topics for p in t.partitions)

    return step


def fetch(
    who: str | None = None,
    epoch: Epoch = None,
    *,
    version: int = 9,
    place: str | None = "t3:0",
) -> Step:
    """OffsetFetch of one partition, or of all."""

    def step(stage: Stage) -> str:
        group: dict[str, Any] = {"group_id": stage.group, "topics": None}
        if place is not None:
            topic, _, partition = place.partition(":")
            wanted = (
                {"name": stage.named(topic)} if version < 10 else {"topic_id": stage.id_of(topic)}
            )
            group["topics"] = [{**wanted, "partition_indexes": [int(partition)]}]
        if version >= 9:
            group["member_id"] = None if who is None else stage.ids.get(who, who)
            group["member_epoch"] = stage.epoch(who, epoch)
        (found,) = stage.call(OFFSET_FETCH, version, groups=[group]).groups
        parts = sorted(
            f"{p.partition_index}={p.committed_offset} {int(p.error_code)}"
            for t in found.topics
            for p in t.partitions
        )
        return f"{int(found.error_code)} {parts}"

    return step


def begin(name: str = "p") -> Step:
    """InitProducerId and AddOffsetsToTxn."""

    def step(stage: Stage) -> str:
        txn = f"{stage.group}-{name}"
        made = stage.call(
            INIT_PRODUCER_ID, 4, transactional_id=txn, transaction_timeout=60_000
        )  # fmt: skip
        stage.producers[name] = (made.producer_id, made.producer_epoch)
        added = stage.call(
            ADD_OFFSETS_TO_TXN, 3, transactional_id=txn, producer_id=made.producer_id,
            producer_epoch=made.producer_epoch, group_id=stage.group,
        )  # fmt: skip
        return f"{int(made.error_code)} {int(added.error_code)}"

    return step


def commit_in_txn(
    who: str = "", epoch: Epoch = None, *, version: int = 4, name: str = "p", at: int = 9,
    instance: str | None = None,
) -> Step:  # fmt: skip
    """TxnOffsetCommit of t3:0."""

    def step(stage: Stage) -> str:
        producer_id, producer_epoch = stage.producers[name]
        part = {"partition_index": 0, "committed_offset": at, "committed_metadata": ""}
        answer = stage.call(
            TXN_OFFSET_COMMIT, version, transactional_id=f"{stage.group}-{name}",
            group_id=stage.group, producer_id=producer_id, producer_epoch=producer_epoch,
            generation_id=stage.epoch(who, epoch),
            member_id=stage.ids.get(who, who), group_instance_id=instance,
            topics=[{"name": "t3", "partitions": [part]}],
        )  # fmt: skip
        return " ".join(str(int(p.error_code)) for t in answer.topics for p in t.partitions)

    return step


def end(*, committed: bool = True, name: str = "p") -> Step:
    """EndTxn."""

    def step(stage: Stage) -> str:
        producer_id, producer_epoch = stage.producers[name]
        answer = stage.call(
            END_TXN, 3, transactional_id=f"{stage.group}-{name}", producer_id=producer_id,
            producer_epoch=producer_epoch, committed=committed,
        )  # fmt: skip
        time.sleep(stage.settles_s)
        return str(int(answer.error_code))

    return step


def classic_join(
    who: str, *topics: str, version: int = 9, kind: str = "consumer", metadata: bytes | None = None,
    instance: str | None = None, protocols: tuple[str, ...] = ("range",),
) -> Step:  # fmt: skip
    """JoinGroup; whoever has no id yet gets one and joins with it."""

    def step(stage: Stage) -> str:
        told = subscription(*topics) if metadata is None else metadata
        values = {
            "group_id": stage.group, "session_timeout": 30_000, "rebalance_timeout": 30_000,
            "protocol_type": kind,
            "protocols": [{"name": name, "metadata": told} for name in protocols],
        }  # fmt: skip
        if version >= 5:
            values["group_instance_id"] = instance
        said = []
        for _ in range(2):
            answer = stage.call(JOIN_GROUP, version, member_id=stage.ids.get(who, ""), **values)
            if answer.member_id:
                stage.ids[who] = answer.member_id
            if int(answer.error_code) == 0:
                stage.epochs[who] = answer.generation_id
            members = sorted(stage.shown(m.member_id) for m in answer.members)
            said.append(
                f"{int(answer.error_code)} g{answer.generation_id} {getattr(answer, 'protocol_type', '')} "
                f"{answer.protocol_name} {stage.shown(answer.leader)} "
                f"{stage.shown(answer.member_id)} {members} {getattr(answer, 'skip_assignment', '')}"
            )
            if int(answer.error_code) != 79:
                break
        return "; ".join(said)

    return step


def sync(who: str, generation: Epoch = None, given: str | None = None) -> Step:
    """SyncGroup; `given` is the topic whose partition 0 a leader gives to itself."""

    def step(stage: Stage) -> str:
        member_id = stage.ids.get(who, who)
        shares = []
        if given is not None:
            name = stage.named(given).encode()
            share = b"\0\0\0\0\0\1" + len(name).to_bytes(2, "big") + name
            share += b"\0\0\0\1\0\0\0\0" + b"\xff\xff\xff\xff"
            shares = [{"member_id": member_id, "assignment": share}]
        answer = stage.call(
            SYNC_GROUP, 5, group_id=stage.group, member_id=member_id, protocol_type="consumer",
            protocol_name="range", assignments=shares,
            generation_id=stage.epoch(who, generation),
        )  # fmt: skip
        given_now = bytes(answer.assignment)
        told = f"{len(given_now)} bytes" if stage.counts else given_now.hex()
        return f"{int(answer.error_code)} {answer.protocol_type} {answer.protocol_name} {told}"

    return step


def classic_beat(who: str, generation: Epoch = None, instance: str | None = None) -> Step:
    """Heartbeat."""

    def step(stage: Stage) -> str:
        answer = stage.call(
            HEARTBEAT, 4, group_id=stage.group, member_id=stage.ids.get(who, who),
            generation_id=stage.epoch(who, generation),
            group_instance_id=instance,
        )  # fmt: skip
        return str(int(answer.error_code))

    return step


def classic_leave(who: str, instance: str | None = None) -> Step:
    """LeaveGroup."""

    def step(stage: Stage) -> str:
        leaving = {"member_id": stage.ids.get(who, who), "group_instance_id": instance}
        answer = stage.call(LEAVE_GROUP, 5, group_id=stage.group, members=[leaving])
        return f"{int(answer.error_code)} {[int(m.error_code) for m in answer.members]}"

    return step


def delete_group(group: str = "{g}") -> Step:
    """DeleteGroups."""

    def step(stage: Stage) -> str:
        (result,) = stage.call(DELETE_GROUPS, 2, groups_names=[stage.named(group)]).results
        return str(int(result.error_code))

    return step


def delete_offset(place: str = "t3:0") -> Step:
    """OffsetDelete."""

    def step(stage: Stage) -> str:
        topic, _, partition = place.partition(":")
        wanted = {"name": topic, "partitions": [{"partition_index": int(partition)}]}
        answer = stage.call(OFFSET_DELETE, 0, group_id=stage.group, topics=[wanted])
        codes = [int(p.error_code) for t in answer.topics for p in t.partitions]
        return f"{int(answer.error_code)} {codes}"

    return step


def moment(_stage: Stage) -> str:
    """A step in which the topics of a pattern are found."""
    time.sleep(0.3)
    return "later"


def make_topic(topic: str, partitions: int) -> Step:
    """Make a topic of the sequence."""

    def step(stage: Stage) -> str:
        name = stage.wire.create_topic(stage.named(topic), partitions)
        answer = stage.call(METADATA, 12, topics=[{"topic_id": UUID(int=0), "name": name}])
        stage.topic_ids[name] = answer.topics[0].topic_id
        time.sleep(stage.settles_s)
        return "made"

    return step


def grow_topic(topic: str, partitions: int) -> Step:
    """Give it more partitions."""

    def step(stage: Stage) -> str:
        wanted = {"name": stage.named(topic), "count": partitions, "assignments": None}
        answer = stage.call(CREATE_PARTITIONS, 3, topics=[wanted], timeout=10_000)
        stage.wire.wait_for_topic(stage.named(topic), partitions)
        time.sleep(stage.settles_s)
        return str(int(answer.results[0].error_code))

    return step


def delete_topic(topic: str) -> Step:
    """Delete it."""

    def step(stage: Stage) -> str:
        answer = stage.call(
            DELETE_TOPICS, 5, topic_names=[stage.named(topic)], timeout=10_000
        )  # fmt: skip
        time.sleep(stage.settles_s * 2)
        return str(int(answer.responses[0].error_code))

    return step


def play(
    bootstrap: str, sequences: Iterable[tuple[str, tuple[Step, ...]]], settles_s: float
) -> dict[str, list[str]]:
    """Play all sequences to a broker, each in a group of its own; returns what comes of each."""
    wire = WireClient(bootstrap, SILENT_S)
    topic_ids = {}
    for topic, partitions in TOPICS.items():
        wire.create_topic(topic, partitions)
        answer = wire.call(METADATA, 12, topics=[{"topic_id": UUID(int=0), "name": topic}])
        topic_ids[topic] = answer.topics[0].topic_id
    wire.wait_for_coordinator("grp")
    found = {}
    for number, (name, steps) in enumerate(sequences):
        counts = name.startswith(OF_BOTH)
        stage = Stage(bootstrap, wire, f"grp{number:03d}", settles_s, dict(topic_ids), counts)
        found[name] = [_played(stage, step) for step in steps]
        wire = stage.wire
    wire.close()
    return found


def _played(stage: Stage, step: Step) -> str:
    try:
        return step(stage)
    except ClosedError:
        return "closed"
    except (SilenceError, TimeoutError):
        return "silent"
