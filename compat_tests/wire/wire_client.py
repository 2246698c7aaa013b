"""Requests that the wire tests make again and again, and answers as the short texts that they
compare.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from compat_tests.clients.raw_connection import TIMEOUT_S, RawConnection

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9
FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 10, 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, SASL_HANDSHAKE, API_VERSIONS = 15, 16, 17, 18
CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID, DESCRIBE_CONFIGS = 19, 20, 22, 32
ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
WRITE_TXN_MARKERS, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 27, 61, 65, 66
DELETE_RECORDS, DESCRIBE_LOG_DIRS = 21, 35
SASL_AUTHENTICATE, CREATE_PARTITIONS, DELETE_GROUPS = 36, 37, 42
INCREMENTAL_ALTER_CONFIGS, DESCRIBE_CLUSTER = 44, 60
OFFSET_DELETE, DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS = 47, 48, 49
DESCRIBE_USER_SCRAM_CREDENTIALS, ALTER_USER_SCRAM_CREDENTIALS = 50, 51

Ranges = dict[int, tuple[int, int]]  # key: lowest and highest version

REFUSED = "base_offset=-1; log_append_time=-1; log_start=-1"
REFUSED_BY_LOG = "base_offset=-1; log_append_time=-1; log_start=0"
MAX_BYTES = 1 << 20


def stored_at(offset: int) -> str:
    """The text of a successful Produce (version 5 or newer) of a topic with CreateTime."""
    return f"0; base_offset={offset}; log_append_time=-1; log_start=0"


def code(error: Any, message: str | None = None) -> str:
    """An error code with its name, and its message where the answer has one: `36
    TOPIC_ALREADY_EXISTS (...)`.
    """
    text = str(error.value) if error.value == 0 else f"{error.value} {error.name.upper()}"
    return f"{text} ({message})" if message else text


class WireClient(RawConnection):
    """A connection with the few requests that most tests make."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        if "," in bootstrap:
            pytest.skip("speaks to one broker, whoever leads")
        super().__init__(bootstrap, timeout_s)

    def create_topic(
        self, topic: str | None = None, partitions: int = 1, configs: dict[str, str] | None = None
    ) -> str:
        """Create a topic and wait until each partition answers; its name."""
        name = topic or f"t-{uuid.uuid4().hex[:12]}"
        entries = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": -1,
            "configs": entries,
        }
        answer = self.call(CREATE_TOPICS, 5, topics=[wanted], timeout=10_000)
        assert code(answer.topics[0].error_code, answer.topics[0].error_message) == "0"
        self.wait_for_topic(name, partitions)
        return name

    def wait_for_topic(self, topic: str, partitions: int = 1) -> None:
        """Return when every partition of a topic is served, here or by another broker."""
        deadline = time.monotonic() + 30
        while any(
            not self.list_offsets(topic, -1, partition=index).startswith(("0 ", "6 "))
            for index in range(partitions)
        ):
            assert time.monotonic() < deadline, f"{topic} is not served"
            time.sleep(0.01)

    def create_topics(self, *topics: dict[str, Any], version: int = 5, **values: Any) -> list[str]:
        """Code and message of each topic in the answer of CreateTopics; one partition, one replica
        if not said.
        """
        wanted = [{"num_partitions": 1, "replication_factor": 1, **topic} for topic in topics]
        answer = self.call(CREATE_TOPICS, version, topics=wanted, **{"timeout": 10_000, **values})
        return [code(t.error_code, t.error_message) for t in answer.topics]

    def alter_config(self, resource: tuple[int, str], name: str, value: str) -> None:
        """Set one entry of a resource, given as its type and its name."""
        kind, resource_name = resource
        change = {"name": name, "config_operation": 0, "value": value}
        asked = {"resource_type": kind, "resource_name": resource_name, "configs": [change]}
        (answer,) = self.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[asked]).responses
        assert code(answer.error_code, answer.error_message) == "0"

    def produce(
        self, topic: str, records: bytes | None, version: int = 7, partition: int = 0, **values: Any
    ) -> str:
        """Produce to one partition; its answer as text."""
        return self.produce_answers(topic, [(partition, records)], version, **values)[0]

    def produce_answers(
        self, topic: str, parts: list[tuple[int, bytes | None]], version: int, **values: Any
    ) -> list[str]:
        """Produce to partitions of one topic; the answer of each as text."""
        answer = self.call(PRODUCE, version, **produce_fields(topic, parts, **values))
        return [produced(p) for t in answer.responses for p in t.partition_responses]

    def fetch(self, topic: str, offset: int, version: int = 11, **values: Any) -> Any:
        """Fetch one partition of a topic; its part of the answer."""
        answer = self.call(FETCH, version, **fetch_fields(topic, offset, **values))
        return answer.responses[0].partitions[0]

    def list_offsets(
        self, topic: str, timestamp: int, version: int = 7, partition: int = 0, epoch: int = -1
    ) -> str:
        """ListOffsets of one partition: `CODE offset=.. ts=.. epoch=..`."""
        wanted: dict[str, Any] = {"partition_index": partition, "timestamp": timestamp}
        if version >= 4:
            wanted["current_leader_epoch"] = epoch
        topics = [{"name": topic, "partitions": [wanted]}]
        answer = self.call(LIST_OFFSETS, version, replica_id=-1, topics=topics)
        found = answer.topics[0].partitions[0]
        epoch_text = getattr(found, "leader_epoch", None)
        return f"{code(found.error_code)} offset={found.offset} ts={found.timestamp} epoch={epoch_text}"

    def metadata(self, topic: str, version: int = 8, auto_create: bool = False) -> Any:
        """The one topic of the answer of Metadata."""
        values = {"allow_auto_topic_creation": auto_create} if version >= 4 else {}
        answer = self.call(METADATA, version, topics=[{"name": topic}], **values)
        return answer.topics[0]

    def wait_for_coordinator(self, group: str) -> None:
        """Return when groups are served: the first one creates the topic that keeps offsets."""
        deadline = time.monotonic() + 30
        while True:
            answer = self.call(FIND_COORDINATOR, 1, key=group, key_type=0)
            if answer.error_code == 0:
                beat = self.call(HEARTBEAT, 3, group_id=group, generation_id=1, member_id="x")
                if code(beat.error_code) == "25 UNKNOWN_MEMBER_ID":
                    return
            assert time.monotonic() < deadline, f"no coordinator: {code(answer.error_code)}"
            time.sleep(0.02)

    def node_id(self) -> int:
        """The id of the broker."""
        return int(self.call(METADATA, 8, topics=[]).brokers[0].node_id)


def served(bootstrap: str) -> Ranges:
    """The versions that a broker lists."""
    client = WireClient(bootstrap)
    listed = client.call(
        API_VERSIONS, 3, client_software_name="served", client_software_version="1"
    )
    client.close()
    return {each.api_key: (each.min_version, each.max_version) for each in listed.api_keys}


def produce_fields(
    topic: str, parts: list[tuple[int, bytes | None]], **values: Any
) -> dict[str, Any]:
    """Fields of a Produce request, acks=-1 if not said otherwise."""
    data = [{"index": index, "records": records} for index, records in parts]
    topics = [{"name": topic, "partition_data": data}]
    return {"acks": -1, "timeout": 10_000, "topic_data": topics, **values}


def fetch_fields(topic: str, offset: int, **values: Any) -> dict[str, Any]:
    """Fields of a Fetch request of partition 0 outside of a session; fields of the partition may be
    given too.
    """
    partition: dict[str, Any] = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": MAX_BYTES,
    }
    for name in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch"):
        if name in values:
            partition[name] = values.pop(name)
    topics = [{"topic": topic, "partitions": [partition]}]
    return {"max_wait": 0, "min_bytes": 1, "max_bytes": MAX_BYTES, "topics": topics, **values}


def produced(answer: Any) -> str:
    """One partition of a Produce answer as text."""
    text = code(answer.error_code, getattr(answer, "error_message", None))
    appended = "-1" if answer.log_append_time is None else "set"
    text += f"; base_offset={answer.base_offset}; log_append_time={appended}"
    if hasattr(answer, "log_start_offset"):
        text += f"; log_start={answer.log_start_offset}"
    errors = [
        (e.batch_index, e.batch_index_error_message) for e in getattr(answer, "record_errors", ())
    ]
    return f"{text}; record_errors={errors}" if errors else text


def fetched(answer: Any) -> str:
    """One partition of a Fetch answer as text."""
    return (
        f"{code(answer.error_code)}; hw={answer.high_watermark}; lso={answer.last_stable_offset}; "
        f"log_start={answer.log_start_offset}; records={len(answer.records or b'')} bytes"
    )
