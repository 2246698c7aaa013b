"""The producer of a transactional id, as the wire tests play it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from compat_tests.running.waiting import PATIENCE_S, until
from compat_tests.wire.record_bytes import TRANSACTIONAL, Batch
from compat_tests.wire.wire_client import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    OFFSET_FETCH,
    TXN_OFFSET_COMMIT,
    WireClient,
    code,
)

BUSY, LOADING = 51, 14
COME_AGAIN = ("6 NOT_LEADER_OR_FOLLOWER", "19 NOT_ENOUGH_REPLICAS")


class Transactions:
    """The producer of a transactional id of its own, and a topic with two partitions."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire
        self.name = f"x-{uuid.uuid4().hex[:12]}"
        self.topic = wire.create_topic(partitions=2)
        self.producer_id = self.epoch = -1

    def find_coordinator(self) -> None:
        until(
            lambda: self.wire.call(FIND_COORDINATOR, 1, key=self.name, key_type=1).error_code == 0,
            "a coordinator",
        )

    def init(self, version: int = 1, **fields: Any) -> Any:
        """Ask until no other request for the id is under way."""
        values = {"transactional_id": self.name, "transaction_timeout": 60_000, **fields}
        return self._settled(lambda: self.wire.call(INIT_PRODUCER_ID, version, **values))

    def begin(self) -> None:
        """Be the producer from now on."""
        answer = self.init()
        assert code(answer.error_code) == "0"
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add(self, *partitions: int, version: int = 3, **fields: Any) -> list[str]:
        """The code of each partition of the topic."""
        values = {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": [{"name": self.topic, "partitions": partitions or (0,)}],
        }
        values.update({f"v3_and_below_{name}": value for name, value in fields.items()})

        def ask() -> Any:
            answer = self.wire.call(ADD_PARTITIONS_TO_TXN, version, **values)
            return answer.results_by_topic_v3_and_below

        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = [each for topic in ask() for each in topic.results_by_partition]
            codes = {each.partition_error_code.value for each in found}
            if codes != {BUSY} or time.monotonic() > deadline:
                found.sort(key=lambda each: each.partition_index)
                return [code(each.partition_error_code) for each in found]

    def write(self, sequence: int = 0, version: int = 8) -> str:
        """Produce one record of the transaction to partition 0, again where it is to come again: a
        broker may not know yet that the partition takes part.
        """
        record = Batch(
            attributes=TRANSACTIONAL,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
        ).to_bytes()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.wire.produce(self.topic, record, version, transactional_id=self.name)
            if not answer.startswith(COME_AGAIN) or time.monotonic() > deadline:
                return answer

    def end(self, *, committed: bool = True, version: int = 3, **fields: Any) -> str:
        values = {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "committed": committed,
            **fields,
        }
        answer = self._settled(lambda: self.wire.call(END_TXN, version, **values))
        return code(answer.error_code)

    def _settled(self, ask: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = ask()
            if answer.error_code.value not in (BUSY, LOADING) or time.monotonic() > deadline:
                return answer

    # ---- offsets of groups

    @property
    def _who(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def commit_offset(self, group: str, offset: int) -> str:
        """Commit an offset of partition 0 within the transaction."""
        self._settled(lambda: self.wire.call(ADD_OFFSETS_TO_TXN, 3, group_id=group, **self._who))
        partition = {
            "partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1,
            "committed_metadata": "",
        }  # fmt: skip
        answer = self.wire.call(
            TXN_OFFSET_COMMIT, 3, group_id=group, generation_id=-1, member_id="",
            topics=[{"name": self.topic, "partitions": [partition]}], **self._who,
        )  # fmt: skip
        return code(answer.topics[0].partitions[0].error_code)

    def committed(self, group: str, *, stable: bool) -> tuple[str, int]:
        """The code and the committed offset of partition 0."""
        topics = [{"name": self.topic, "partition_indexes": (0,)}]
        answer = self.wire.call(
            OFFSET_FETCH, 7, group_id=group, topics=topics, require_stable=stable
        )
        (found,) = answer.topics[0].partitions
        return code(found.error_code), found.committed_offset
