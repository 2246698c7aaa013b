"""A login that the broker takes for a while only (KIP-368): a link is replaced before it ends."""

from __future__ import annotations

import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import ConnectionSettings
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import decode_request_header, encode_response_header
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kbroker.protocol.schema import Message
from kbroker.sasl.login import Login

SERVED: dict[int, type[Message]] = {
    (each.spec.key or 0): each
    for each in (
        ApiVersionsRequest, MetadataRequest, SaslHandshakeRequest, SaslAuthenticateRequest
    )
}  # fmt: skip
LIFETIME_MS = 100


class Broker(socketserver.ThreadingTCPServer):
    """One broker that lets everyone in, for `LIFETIME_MS`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.port: int = self.server_address[1]
        self.logins = 0

    def answer(self, request: Message) -> Message:
        if isinstance(request, ApiVersionsRequest):
            keys = [
                ApiVersionsResponse.ApiVersion(
                    api_key=key,
                    min_version=each.spec.versions.lowest,
                    max_version=each.spec.versions.highest,
                )
                for key, each in SERVED.items()
            ]
            return ApiVersionsResponse(api_keys=keys)
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        if isinstance(request, SaslAuthenticateRequest):
            self.logins += 1
            return SaslAuthenticateResponse(session_lifetime_ms=LIFETIME_MS)
        broker = MetadataResponse.MetadataResponseBroker(
            node_id=1, host="127.0.0.1", port=self.port
        )
        topic = MetadataResponse.MetadataResponseTopic(name="t")
        return MetadataResponse(brokers=[broker], topics=[topic])


class Connection(socketserver.StreamRequestHandler):
    server: Broker

    def handle(self) -> None:
        while size := self.rfile.read(4):
            frame = memoryview(self.rfile.read(*struct.unpack(">i", size)))
            header, offset = decode_request_header(frame)
            request, _ = decode(SERVED[header.api_key], header.api_version, frame, offset)
            head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
            answer = encode(self.server.answer(request), header.api_version, head)
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_a_link_whose_login_gets_old_is_replaced_when_it_owes_no_answer(broker: Broker) -> None:
    login = Login(mechanism="PLAIN", username="ann", password="x")
    bootstrap = Bootstrap(f"127.0.0.1:{broker.port}", ConnectionSettings(login=login))
    with closing(ClusterLinks(bootstrap)) as cluster:
        cluster.topic("t")
        first = cluster.link(1)
        first.send(MetadataRequest(topics=[]))
        assert cluster.link(1) is first

        time.sleep(LIFETIME_MS / 1000)

        assert cluster.link(1) is first, "an answer is on its way"
        first.take()
        assert cluster.link(1) is not first
        assert broker.logins == 3, "one link for questions, two for records"
