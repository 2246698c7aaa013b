"""A listener with logins over wires in memory: what passes its gate is noted, and not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kbroker.errors import ErrorCode
from kbroker.network.connection_login import ListenerLogins
from kbroker.network.connection_quotas import ConnectionQuotas
from kbroker.network.login_channel import LoginChannel
from kbroker.network.processor import Processor
from kbroker.network.receive_buffers import ReceiveBuffers
from kbroker.network.request_channel import RequestChannel
from kbroker.network.unserved_clients import UnservedClients
from kbroker.protocol.frame import SIZE
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.schema import Message
from kbroker.sasl.exchange import Identity
from kbroker.sasl.login_gate import LoginGate, Moment, Step
from tests.fakes.requests.memory_wire import MemoryWire
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.running.virtual_time import VirtualTime

FRAME_BYTES_MAX = 4_096
BEFORE_LOGIN_BYTES_MAX = 1_024


def sized(*frames: bytes) -> bytes:
    """The frames with their sizes, as they are sent."""
    return b"".join(SIZE.pack(len(frame)) + frame for frame in frames)


class LoginListener:
    """Connections whose logins are those of `gate`."""

    def __init__(self, gate: Callable[[], LoginGate], queued_max: int = 1_000) -> None:
        self.time = VirtualTime()
        self.queue = RequestChannel(queued_max)
        quotas = ConnectionQuotas(100, 100)
        self.processor = Processor(
            self.queue,
            ReceiveBuffers(1 << 20),
            quotas,
            self.time,
            (FRAME_BYTES_MAX, -1),
            UnservedClients(),
        )
        self.processor.strangers.failed_delay_ms = 0
        self.processor.linger_s = 0.0
        self._quotas = quotas
        self._logins = ListenerLogins(
            begin=lambda _: gate(),
            let_in=_let_in,
            refuse=_refuse,
            run=self._run,
            now=lambda: Moment(self.time.now_ms(), int(self.time.monotonic_ms())),
            steady_ms=self.time.monotonic_ms,
            max_frame_bytes=BEFORE_LOGIN_BYTES_MAX,
        )
        self.judged: list[Callable[[], None]] = []  # what a thread would do, when it is called
        self.askers: list[str] = []  # who takes turns at it

    async def connect(self, host: str = "127.0.0.1") -> ListenedConnection:
        """Open a connection from an address."""
        connection = local_connection()
        connection.peer_host = host
        self._quotas.increment(connection.peer_host, connection.listener_name)
        wire = MemoryWire(connection)
        channel = LoginChannel(self.processor, wire, self._logins)
        await wire.open(channel)
        return ListenedConnection(wire, channel)

    def _run(self, asker: str, work: Callable[[], Step]) -> asyncio.Future[Step]:
        future: asyncio.Future[Step] = asyncio.get_running_loop().create_future()

        def do() -> None:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

        def drop(_: object) -> None:
            if future.cancelled():
                self.judged.remove(do)

        future.add_done_callback(drop)
        self.judged.append(do)
        self.askers.append(asker)
        return future


class ListenedConnection:
    """The client's end of a connection."""

    def __init__(self, wire: MemoryWire, channel: LoginChannel) -> None:
        self.wire = wire
        self.channel = channel
        self._read = 0

    @property
    def principal(self) -> str:
        return self.wire.connection.principal

    async def send(self, *frames: bytes) -> list[bytes]:
        """Send frames; returns the answers that came."""
        return await self.send_bytes(sized(*frames))

    async def send_bytes(self, data: bytes) -> list[bytes]:
        """Send bytes as they are; returns the answers that came."""
        left = memoryview(data)
        while left and (taken := self.wire.receive(left)):
            left = left[taken:]
        return await self.answers()

    async def answers(self) -> list[bytes]:
        """The answers that came since the last call."""
        for _ in range(4):
            await asyncio.sleep(0)
        found, sent = [], self.wire.sent
        while self._read < len(sent):
            (size,) = SIZE.unpack_from(sent, self._read)
            start = self._read + SIZE.size
            found.append(bytes(sent[start : start + size]))
            self._read = start + size
        return found


def _let_in(connection: ConnectionInfo, identity: Identity) -> None:
    connection.principal = f"User:{identity.name}"


def _refuse(_header: RequestHeader, _frame: memoryview, code: ErrorCode) -> Message:
    return MetadataResponse(controller_id=code)
