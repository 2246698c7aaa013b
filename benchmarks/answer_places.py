"""The versions in which requests are sent, and where in their answers the error code is: before all
that may differ from answer to answer.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import raw_client
from kbroker.protocol import codec
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.produce import ProduceResponse
from kbroker.protocol.schema import Message

PRODUCE, FETCH, METADATA, OFFSET_COMMIT, FIND, JOIN, HEARTBEAT, SYNC, INIT = (
    0, 1, 3, 8, 10, 11, 12, 14, 22,
)  # fmt: skip
VERSIONS = {
    PRODUCE: 9, FETCH: 12, METADATA: 9, OFFSET_COMMIT: 8, FIND: 3, JOIN: 7, HEARTBEAT: 4,
    SYNC: 4, INIT: 4,
}  # fmt: skip
JAVA_PRODUCE, JAVA_FETCH = 13, 17  # versions of Java's clients 4.x: topics go by id


def produced_answer(topic: str, code: int) -> ProduceResponse:
    """An answer to a Produce to partition 0."""
    partition = ProduceResponse.PartitionProduceResponse(error_code=code)
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(name=topic, partition_responses=[partition])
        ]
    )


def produce_error_at(topic: str, version: int = VERSIONS[PRODUCE]) -> int:
    """Where the error of the only partition is."""
    return place_of_error(lambda code: produced_answer(topic, code), PRODUCE, version)


def fetch_error_at(topic: str) -> int:
    """Where the error of the only partition is."""

    def fetched(code: int) -> FetchResponse:
        partition = FetchResponse.PartitionData(error_code=code)
        of_topic = FetchResponse.FetchableTopicResponse(topic=topic, partitions=[partition])
        return FetchResponse(responses=[of_topic])

    return place_of_error(fetched, FETCH)


def place_of_error(answer: Callable[[int], Message], key: int, version: int | None = None) -> int:
    """Where answers of this kind have their error code; it lies before all that may differ."""
    return first_difference(answer_of(answer(0), key, version), answer_of(answer(-1), key, version))


def answer_of(answer: Message, key: int, version: int | None = None) -> bytes:
    """Size, header and body of an answer."""
    version = version or VERSIONS[key]
    header = bytes(5 if raw_client.is_flexible(key, version) else 4)
    body = codec.encode(answer, version)
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


def first_difference(a: bytes, b: bytes) -> int:
    """The first place with another byte, in frames of one size."""
    return next(place for place, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
