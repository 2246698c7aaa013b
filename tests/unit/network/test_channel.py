from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import cast

from kbroker.network.channel import Channel, ChannelOwner
from kbroker.network.receive_buffers import ReceiveBuffers
from kbroker.network.wire import SocketWire
from tests.fakes.recording_replier import local_connection


async def test_an_idle_client_that_leaves_holds_no_buffer_until_its_turn_comes() -> None:
    owner = cast(ChannelOwner, SimpleNamespace(buffers=ReceiveBuffers(1 << 20)))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(owner, SocketWire(ours, local_connection()))
        channel.get_buffer(-1)  # as the event loop does before it learns of the end
        assert channel.holds_buffer

        channel.eof_received()

        assert not channel.holds_buffer
