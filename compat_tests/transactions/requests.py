"""The verbs of sequences: what each sends. `p` is a producer, `t:0` a partition, `g` a group.

    init p [timeout=] [id=] [epoch=] [named=q|none|empty]   InitProducerId
    add p t:0 t:1 [verify]                   AddPartitionsToTxn; from version 4 on `+ q t:0` adds more
    add-offsets p g                          AddOffsetsToTxn
    commit p g t:0=5 [generation=] [member=] TxnOffsetCommit; `as-member` with the one that joined
    end p commit|abort                       EndTxn
    produce p t:0 [count=] [sequence=] [plain] [control] [unnamed]   Produce; `-` has no id
    marker p t:0 commit|abort [coordinator=] WriteTxnMarkers
    fetch t:0 [committed] [from=]            Fetch
    offsets t:0 [committed] [time=]          ListOffsets
    offset-fetch g t:0 [stable]  offset-commit g t:0=5  offset-delete g t:0  delete-group g
    describe p ...  producers t:0 ...  list [states=] [ids=] [longer-than=] [like=]  find p
    delete-records t:0 before=N

Each takes `id=` and `epoch=` where a request has them: a number, `own+1`, or another producer's.
`topic t name=value`, `join g`, `until p State`, `until-past p` (the start of its transaction) and
`until-forgotten t:0` are in `runner.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compat_tests.transactions.actors import Actors, Producer
from compat_tests.transactions.script import Step
from compat_tests.wire.record_bytes import CONTROL, ONE, TRANSACTIONAL, Batch
from compat_tests.wire.wire_client import (
    DELETE_GROUPS,
    DELETE_RECORDS,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    PRODUCE,
    WireClient,
    fetch_fields,
    produce_fields,
)

ADD_PARTITIONS, ADD_OFFSETS, END_TXN, WRITE_MARKERS, TXN_OFFSET_COMMIT = 24, 25, 26, 27, 28
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66
GROUP, TRANSACTION = 0, 1  # key types of FindCoordinator

Fields = dict[str, Any]


class Requests:
    """Builds the request of a step."""

    def __init__(self, actors: Actors, client: WireClient) -> None:
        self._actors = actors
        self._client = client

    def build(self, step: Step) -> tuple[int, int, Fields]:
        """(key, version, fields). Raises KeyError for a verb that there is not."""
        key, usual, make = _VERBS[step.verb]
        version = usual if step.version is None else step.version
        return key, version, make(self, step, version)

    # ---- parts

    def _identity(self, step: Step, producer: Producer) -> tuple[int, int]:
        """Producer id and epoch; what was asked for by a sum is named so."""
        asked = step.options.get("id", "own")
        producer_id = self._actors.number(asked, producer.producer_id)
        self._actors.name_id(producer_id, f"{step.words[0]}'s {asked}")
        return producer_id, self._actors.number(step.options.get("epoch", "own"), producer.epoch)

    def _named(self, step: Step, producer: Producer) -> str | None:
        other = step.options.get("named")
        if other is None:
            return producer.transactional_id
        return {"none": None, "empty": ""}.get(other, self._actors.name_on_broker(other))

    def _topics(self, words: tuple[str, ...]) -> dict[str, list[tuple[int, int]]]:
        """{topic on the broker: [(partition, number after =)]} of words `t:0` and `t:0=5`."""
        found: dict[str, list[tuple[int, int]]] = {}
        for word in words:
            if ":" in word:
                name, _, rest = word.partition(":")
                index, _, number = rest.partition("=")
                topic = self._actors.topic(name, self._client)
                found.setdefault(topic, []).append((int(index), int(number or 0)))
        return found

    def _indexes(self, words: tuple[str, ...], field: str) -> list[Fields]:
        return [
            {"name": topic, field: [index for index, _ in parts]}
            for topic, parts in self._topics(words).items()
        ]

    def _group(self, name: str) -> str:
        return "" if name == "-" else self._actors.name_on_broker(name)

    # ---- transactions

    def init(self, step: Step, version: int) -> Fields:
        producer = self._actors.producer(step.words[0])
        if "named" in step.options:
            producer.transactional_id = self._named(step, producer)
        timeout = int(step.options.get("timeout", "60000"))
        fields: Fields = {
            "transactional_id": producer.transactional_id,
            "transaction_timeout": timeout,
        }
        if version >= 3:
            asked = {"id": "-1", "epoch": "-1", **step.options}
            fields["producer_id"] = self._actors.number(asked["id"], producer.producer_id)
            fields["producer_epoch"] = self._actors.number(asked["epoch"], producer.epoch)
        return fields

    def add(self, step: Step, version: int) -> Fields:
        if version >= 4:
            return {"transactions": list(self._added(step))}
        producer = self._actors.producer(step.words[0])
        producer_id, epoch = self._identity(step, producer)
        return {
            "v3_and_below_transactional_id": self._named(step, producer) or "",
            "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": self._indexes(step.words, "partitions"),
        }

    def _added(self, step: Step) -> list[Fields]:
        parts: list[list[str]] = [[]]
        for word in step.words:
            if word == "+":
                parts.append([])
            else:
                parts[-1].append(word)
        found = []
        for name, *words in parts:
            producer = self._actors.producer(name)
            producer_id, epoch = self._identity(step, producer)
            found.append({
                "transactional_id": self._named(step, producer) or "",
                "producer_id": producer_id, "producer_epoch": epoch,
                "verify_only": "verify" in step.words,
                "topics": self._indexes(tuple(words), "partitions"),
            })  # fmt: skip
        return found

    def add_offsets(self, step: Step, version: int) -> Fields:
        return {**self._owner(step), "group_id": self._group(step.words[1])}

    def end(self, step: Step, version: int) -> Fields:
        return {**self._owner(step), "committed": step.words[1] == "commit"}

    def _owner(self, step: Step) -> Fields:
        producer = self._actors.producer(step.words[0])
        producer_id, epoch = self._identity(step, producer)
        return {
            "transactional_id": self._named(step, producer) or "",
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }

    def commit(self, step: Step, version: int) -> Fields:
        fields: Fields = {**self._owner(step), "group_id": self._group(step.words[1])}
        fields["topics"] = self._committed(step, version >= 2)
        if version >= 3:
            fields |= self._membership(step, "generation_id")
        return fields

    def _committed(self, step: Step, with_epoch: bool) -> list[Fields]:
        epoch = {"committed_leader_epoch": -1} if with_epoch else {}
        metadata = "m" * int(step.options.get("metadata-bytes", "0"))
        return [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": index, "committed_offset": offset,
                     "committed_metadata": metadata, **epoch}
                    for index, offset in parts
                ],
            }
            for topic, parts in self._topics(step.words).items()
        ]  # fmt: skip

    def _membership(self, step: Step, generation_field: str) -> Fields:
        found: Fields = {
            generation_field: self._actors.number(step.options.get("generation", "-1"), -1),
            "member_id": step.options.get("member", ""),
            "group_instance_id": step.options.get("instance"),
        }
        if "as-member" in step.words:
            member = self._actors.member(step.words[1] if step.verb == "commit" else step.words[0])
            found["member_id"] = member.member_id
            found[generation_field] = self._actors.number(
                step.options.get("generation", "own"), member.generation
            )
        return found

    def marker(self, step: Step, version: int) -> Fields:
        producer = self._actors.producer(step.words[0])
        producer_id, epoch = self._identity(step, producer)
        marker: Fields = {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transaction_result": "commit" in step.words,
            "coordinator_epoch": int(step.options.get("coordinator", "0")),
            "topics": self._indexes(step.words, "partition_indexes"),
        }
        if version >= 2:
            marker["transaction_version"] = int(step.options.get("transaction-version", "0"))
        return {"markers": [marker]}

    # ---- records

    def produce(self, step: Step, version: int) -> Fields:
        (topic, parts), *_ = self._topics(step.words).items()
        if step.words[0] == "-":
            records = Batch(pairs=ONE * int(step.options.get("count", "1"))).to_bytes()
            return produce_fields(topic, [(parts[0][0], records)])
        producer = self._actors.producer(step.words[0])
        name = None if "unnamed" in step.words else self._named(step, producer)
        data = [(index, self._batch(step, producer, topic, index)) for index, _ in parts]
        acks = int(step.options.get("acks", "-1"))
        return produce_fields(topic, data, transactional_id=name, acks=acks)

    def _batch(self, step: Step, producer: Producer, topic: str, index: int) -> bytes:
        producer_id, epoch = self._identity(step, producer)
        next_one = producer.sequences.get((topic, index), 0)
        is_plain = "plain" in step.words or producer.transactional_id is None
        attributes = (0 if is_plain else TRANSACTIONAL) | (
            CONTROL if "control" in step.words else 0
        )
        return Batch(
            pairs=ONE * int(step.options.get("count", "1")),
            attributes=attributes,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._actors.number(step.options.get("sequence", "own"), next_one),
        ).to_bytes()

    def fetch(self, step: Step, version: int) -> Fields:
        ((topic, ((index, _),)),) = self._topics(step.words).items()
        isolation = {"isolation_level": int("committed" in step.words)}
        fields = fetch_fields(topic, int(step.options.get("from", "0")), **isolation)
        if version < 15:
            fields["replica_id"] = -1
        if version >= 7:
            fields["session_epoch"] = -1
        for part in fields["topics"][0]["partitions"]:
            part["partition"] = index
            if version >= 9:
                part["current_leader_epoch"] = -1
            if version >= 12:
                part["last_fetched_epoch"] = -1
        return fields

    def offsets(self, step: Step, version: int) -> Fields:
        topics = []
        epoch = {"current_leader_epoch": -1} if version >= 4 else {}
        for topic, parts in self._topics(step.words).items():
            time = int(step.options.get("time", "-1"))
            wanted = [{"partition_index": i, "timestamp": time, **epoch} for i, _ in parts]
            topics.append({"name": topic, "partitions": wanted})
        isolation = {"isolation_level": int("committed" in step.words)} if version >= 2 else {}
        return {"replica_id": -1, "topics": topics, **isolation}

    def delete_records(self, step: Step, version: int) -> Fields:
        before = int(step.options["before"])
        topics = [
            {
                "name": topic,
                "partitions": [{"partition_index": i, "offset": before} for i, _ in parts],
            }
            for topic, parts in self._topics(step.words).items()
        ]
        return {"topics": topics, "timeout": 10_000}

    # ---- groups

    def offset_fetch(self, step: Step, version: int) -> Fields:
        topics = self._indexes(step.words, "partition_indexes")
        group = self._group(step.words[0])
        stable = {"require_stable": "stable" in step.words} if version >= 7 else {}
        if version < 8:
            return {"group_id": group, "topics": topics or None, **stable}
        member = {"member_id": None, "member_epoch": -1} if version >= 9 else {}
        return {"groups": [{"group_id": group, "topics": topics or None, **member}], **stable}

    def offset_commit(self, step: Step, version: int) -> Fields:
        return {
            "group_id": self._group(step.words[0]),
            **self._membership(step, "generation_id_or_member_epoch"),
            "topics": self._committed(step, with_epoch=True),
        }

    def offset_delete(self, step: Step, version: int) -> Fields:
        topics = [
            {"name": topic, "partitions": [{"partition_index": i} for i, _ in parts]}
            for topic, parts in self._topics(step.words).items()
        ]
        return {"group_id": self._group(step.words[0]), "topics": topics}

    def delete_group(self, step: Step, version: int) -> Fields:
        return {"groups_names": [self._group(name) for name in step.words]}

    # ---- what is seen from outside

    def describe(self, step: Step, version: int) -> Fields:
        names = [self._actors.producer(name).transactional_id for name in step.words]
        return {"transactional_ids": names if "named" not in step.options else [""]}

    def producers(self, step: Step, version: int) -> Fields:
        return {"topics": self._indexes(step.words, "partition_indexes")}

    def list_all(self, step: Step, version: int) -> Fields:
        ids = [name for name in step.options.get("ids", "").split(",") if name]
        states = [state for state in step.options.get("states", "").split(",") if state]
        fields: Fields = {
            "state_filters": states,
            "producer_id_filters": [self._actors.number(name, -1) for name in ids],
        }
        if version >= 1:
            fields["duration_filter"] = int(step.options.get("longer-than", "-1"))
        if version >= 2:
            like = step.options.get("like")
            fields["transactional_id_pattern"] = like and like.replace("@", self._actors.prefix)
        return fields

    def find(self, step: Step, version: int) -> Fields:
        names = [self._actors.producer(name).transactional_id or "" for name in step.words]
        names = [""] if "named" in step.options else names
        kind = {"key_type": int(step.options.get("type", TRANSACTION))} if version >= 1 else {}
        return {"coordinator_keys": names, **kind} if version >= 4 else {"key": names[0], **kind}


# verb: (key, version where none is named, who builds it)
_VERBS: dict[str, tuple[int, int, Callable[[Requests, Step, int], Fields]]] = {
    "init": (INIT_PRODUCER_ID, 4, Requests.init),
    "add": (ADD_PARTITIONS, 3, Requests.add),
    "add-offsets": (ADD_OFFSETS, 3, Requests.add_offsets),
    "end": (END_TXN, 3, Requests.end),
    "commit": (TXN_OFFSET_COMMIT, 3, Requests.commit),
    "marker": (WRITE_MARKERS, 1, Requests.marker),
    "produce": (PRODUCE, 9, Requests.produce),
    "fetch": (FETCH, 11, Requests.fetch),
    "offsets": (LIST_OFFSETS, 7, Requests.offsets),
    "delete-records": (DELETE_RECORDS, 2, Requests.delete_records),
    "offset-fetch": (OFFSET_FETCH, 7, Requests.offset_fetch),
    "offset-commit": (OFFSET_COMMIT, 7, Requests.offset_commit),
    "offset-delete": (OFFSET_DELETE, 0, Requests.offset_delete),
    "delete-group": (DELETE_GROUPS, 2, Requests.delete_group),
    "describe": (DESCRIBE_TRANSACTIONS, 0, Requests.describe),
    "producers": (DESCRIBE_PRODUCERS, 0, Requests.producers),
    "list": (LIST_TRANSACTIONS, 1, Requests.list_all),
    "find": (FIND_COORDINATOR, 4, Requests.find),
}
