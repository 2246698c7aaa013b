"""The commands' own client before brokers of the past, played by a thread that answers as they did."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.api_versions import ApiVersionsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.schema import Versions

KAFKA_2_0 = {
    ApiKey.PRODUCE: Versions(0, 6),
    ApiKey.API_VERSIONS: Versions(0, 2),
    ApiKey.METADATA: Versions(0, 6),
}
KAFKA_0_10 = {
    ApiKey.PRODUCE: Versions(0, 2),
    ApiKey.API_VERSIONS: Versions(0, 0),
    ApiKey.METADATA: Versions(0, 2),
}


def answered(served: Mapping[int, Versions], frame: bytes) -> bytes:
    """The answer to a request, by the key and version at its start."""
    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    correlation_id = frame[4:8]
    if key == ApiKey.API_VERSIONS:
        is_known = version <= served[key].highest
        rows = [
            ApiVersionsResponse.ApiVersion(
                api_key=each, min_version=known.lowest, max_version=known.highest
            )
            for each, known in served.items()
        ]
        code = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_VERSION
        answer = ApiVersionsResponse(error_code=int(code), api_keys=rows)
        return encode(answer, version if is_known else 0, correlation_id)
    assert version <= served[key].highest, "a request that the broker does not know"
    topic = MetadataResponse.MetadataResponseTopic(
        name="t",
        partitions=[MetadataResponse.MetadataResponsePartition(partition_index=0, leader_id=7)],
    )
    return encode(MetadataResponse(topics=[topic]), version, correlation_id)


@contextmanager
def old_broker(served: Mapping[int, Versions]) -> Iterator[str]:
    """Its address; serves one connection after the other until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, connection.makefile("rb") as stream:
                    while size := stream.read(4):
                        answer = answered(served, stream.read(int.from_bytes(size, "big")))
                        connection.sendall(len(answer).to_bytes(4, "big") + answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)  # or the thread would wait for the next one


def test_versions_are_those_that_the_broker_knows() -> None:
    with old_broker(KAFKA_2_0) as bootstrap:
        links = ClusterLinks(bootstrap)
        view = links.topic("t")
        links.close()

    assert (view.name, view.leaders) == ("t", {0: 7})


def test_a_broker_that_is_too_old_is_told_as_such() -> None:
    reason = "is too old: it serves Metadata in versions 0-2, needed is 4 or later"

    with old_broker(KAFKA_0_10) as bootstrap, pytest.raises(KafkaError, match=reason):
        ClusterLinks(bootstrap)
