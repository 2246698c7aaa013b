from __future__ import annotations

from kbroker.network.request_channel import Replier, RequestChannel
from kbroker.protocol.request import Request
from tests.fakes.requests.recording_replier import RecordingReplier, request_of


def test_requests_wait_until_a_receiver_is_attached_and_then_come_in_order() -> None:
    channel = RequestChannel(10)
    requests = [request_of(3, 0, b"", correlation_id=number) for number in range(3)]
    received: list[Request] = []

    def receive(replier: Replier, request: Request) -> None:
        received.append(request)

    channel.send(RecordingReplier(), requests[0])
    channel.send(RecordingReplier(), requests[1])
    assert len(channel) == 2
    channel.attach(receive)
    channel.send(RecordingReplier(), requests[2])
    assert [request.header.correlation_id for request in received] == [0, 1, 2]
    assert (len(channel), channel.requests.value) == (0, 3)


def test_a_full_queue_tells_those_who_wait_when_there_is_room() -> None:
    channel = RequestChannel(1)
    channel.send(RecordingReplier(), request_of(3, 0, b""))
    assert channel.is_full
    called: list[bool] = []
    channel.wait_for_room(lambda: called.append(channel.is_full))
    channel.attach(lambda replier, request: None)
    assert called == [False]
