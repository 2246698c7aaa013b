"""BrokerClient: the way from this broker to another one, for the controller's requests and for
questions to the controller. It has one connection, opened when it is needed.

Law: requests go out in the order of `send` calls, some of them before earlier ones are answered.
Any failure, be it a cut, a time-out, an answer to something else, or bytes that are none, ends the
connection for all requests in flight: the next request opens another one, and no answer is ever
taken for that of a request before. A request whose answer did not come may have been carried out;
the caller decides whether to send it again. A caller that gives up ends the connection only if
nobody else waits for an answer on it.

Versions are settled by ApiVersions when the connection opens (KIP-35, KIP-511): the highest that
both sides know, so that Apache Kafka's brokers are understood as well.

Where the other broker asks for a login, one comes before all requests, and again before the session
ends (KIP-368): on the same connection, in turn with the requests. A broker that does not let this
one in is tried again after longer and longer waits.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.model import ZERO_UUID, EndPoint
from kbroker.peers.broker_connection import BrokerConnection
from kbroker.peers.cluster_action import SPEAKERS
from kbroker.peers.way import PLAIN_WAY, NotLetInError, Way
from kbroker.protocol.codec import decode
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.protocol.schema import Message, Versions, response_class

IN_FLIGHT_MAX = 5  # as Kafka's clients
RECONNECT_BACKOFF_MS = 50.0  # each time, as Kafka's brokers wait before they turn to one again
_BACKOFF_S_MAX = 1.0  # after refusals; as Kafka's reconnect.backoff.max.ms
_SESSION_SHARE = 0.85  # of a session, after which a login is renewed, as Java's clients do
_LOWEST_VERSIONS: dict[type[Message], int] = {
    # A controller's requests have their partitions under topics; before, they would say nothing.
    LeaderAndIsrRequest: 2,
    UpdateMetadataRequest: 5,
    StopReplicaRequest: 3,
    SaslHandshakeRequest: 1,  # tokens after version 0 are no requests
}
_FIRST_ADD_PARTITIONS_OF_BROKERS = 4  # before, it is about its sender's one transaction
_MAYBE_DEAF = ": unless it is too old, its inter.broker.listener.name differs from that of this one"
_LAST_LEADER_AND_ISR_WITH_NAMES = 4  # in its answer; later ones have the ids of topics


class BrokerClient:
    """Connects on the first `send`, and again on the first one after a failure."""

    def __init__(
        self,
        end_point: EndPoint,
        client_id: str,
        timeout_ms: float,
        *,
        way: Way = PLAIN_WAY,
        in_flight_max: int = IN_FLIGHT_MAX,
        reconnect_backoff_ms: float = RECONNECT_BACKOFF_MS,
    ) -> None:
        """`client_id` is this broker's id as text, as Kafka's brokers call themselves; `timeout_ms`
        bounds a `send` from its call on.

        No connection is opened within `reconnect_backoff_ms` after one failed.
        """
        self.end_point = end_point
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._way = way
        self._in_flight_max = in_flight_max
        self._backoff_s = reconnect_backoff_ms / 1000
        self._refusals = 0  # in a row
        self._failed_s: float | None = None  # when opening a connection failed, in the loop's time
        self._connection: BrokerConnection | None = None
        self._turn = asyncio.Lock()  # first come, first served
        self._in_turn = 0  # callers who have it or wait for it

    async def send(
        self,
        request: Message,
        *,
        timeout_ms: float | None = None,
        highest_version: int | None = None,
    ) -> Any:
        """Send a request and return its answer, a message of the response's class.

        Raises OSError or TimeoutError if there was no answer, KafkaError UNSUPPORTED_VERSION if the
        other broker knows no version of the request that we know.
        """
        what = type(request).__name__
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        now_s = asyncio.get_running_loop().time()
        deadline_s = now_s + max(limit_ms, 0) / 1000
        asked: BrokerConnection | None = None
        try:
            connection = self._free_connection(now_s)
            if connection is not None:
                version = self._choose(request, connection.served, highest_version)
                answered = connection.ask(request, version, deadline_s)
            else:
                async with self._next_turn(deadline_s):
                    connection = await self._ready()
                    version = self._choose(request, connection.served, highest_version)
                    answered = connection.ask(request, version, deadline_s)
            asked = connection
            body, offset = await answered
            return decode(response_class(type(request)), version, body, offset)[0]
        except TimeoutError as error:
            if asked is not None:
                # Later requests wait for it.
                asked.end(ConnectionResetError(f"{self._peer} gave no answer to {what} before it"))
            raise self._no_answer(what, limit_ms) from error
        except asyncio.CancelledError:
            if asked is not None:
                asked.give_up()
            raise
        except (EOFError, ProtocolError) as error:
            if asked is not None:
                asked.end(error)
            raise self._wrong_answer(what, error) from error

    async def serves(self, key: int, version: int, *, timeout_ms: float | None = None) -> bool:
        """True if the other broker lists that version of an API. Raises as `send` does."""
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        deadline_s = asyncio.get_running_loop().time() + max(limit_ms, 0) / 1000
        try:
            async with self._next_turn(deadline_s):
                connection = await self._connected()
        except TimeoutError as error:
            raise self._no_answer("ApiVersionsRequest", limit_ms) from error
        except (EOFError, ProtocolError) as error:
            raise self._wrong_answer("ApiVersionsRequest", error) from error
        return version in connection.served.get(key, Versions(0, -1))

    def close(self) -> None:
        """Close the connection; requests in flight fail, a later one opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.end(ConnectionAbortedError(f"the connection to {self._peer} was closed"))

    @property
    def _peer(self) -> str:
        return f"the broker at {self.end_point.host}:{self.end_point.port}"

    def _no_answer(self, what: str, limit_ms: float) -> TimeoutError:
        return TimeoutError(f"{self._peer} gave no answer to {what} within {limit_ms / 1000:g} s")

    def _wrong_answer(self, what: str, error: EOFError | ProtocolError) -> ConnectionResetError:
        reason = "closed the connection" if isinstance(error, EOFError) else f"sent {error}"
        return ConnectionResetError(f"{self._peer} {reason} instead of an answer to {what}")

    def _free_connection(self, now_s: float) -> BrokerConnection | None:
        """The connection, if a request can go out at once: nobody has the turn or waits for it, and
        no login is to be renewed.
        """
        found = self._connection
        if found is None or self._in_turn or not found.is_open or not found.has_room:
            return None
        return found if found.renew_s is None or now_s < found.renew_s else None

    @asynccontextmanager
    async def _next_turn(self, deadline_s: float) -> AsyncIterator[None]:
        """The turn, after those who came before. Raises TimeoutError at the deadline."""
        self._in_turn += 1
        try:
            async with asyncio.timeout_at(deadline_s), self._turn:
                yield
        finally:
            self._in_turn -= 1

    async def _ready(self) -> BrokerConnection:
        """An open connection that has room for a request. The caller has the turn."""
        while not (connection := await self._connected()).has_room:
            await connection.wait_for_change()
        return connection

    async def _connected(self) -> BrokerConnection:
        """The open connection, or a new one if it has ended. The caller has the turn."""
        last = self._connection
        if last is not None:
            if last.is_open:
                if last.renew_s is not None and asyncio.get_running_loop().time() >= last.renew_s:
                    await self._renew(last)
                return last
            self._connection, self._failed_s = None, last.ended_s
        await self._back_off()
        connection: BrokerConnection | None = None

        def make() -> BrokerConnection:
            nonlocal connection
            connection = BrokerConnection(self._client_id, self._in_flight_max)
            return connection

        try:
            await self._connect(make)
            assert connection is not None, "a connection was made"
            self._connection = connection
            await connection.negotiate()
            await self._log_in(connection)
        except BaseException as error:
            self._failed_s = asyncio.get_running_loop().time()
            self._ended_by(error, connection)
            raise
        self._refusals = 0
        return connection

    async def _connect(self, make: Callable[[], BrokerConnection]) -> None:
        try:
            await self._way.connect(make, self.end_point.host, self.end_point.port)
        except UnicodeError as error:  # a broker may register with anything as its host
            raise ConnectionRefusedError(f"{self._peer} has no name that can be found") from error

    async def _log_in(self, connection: BrokerConnection) -> None:
        if self._way.log_in is None:
            return
        begun_s = asyncio.get_running_loop().time()

        async def ask(request: Message) -> Any:
            version = self._choose(request, connection.served, None)
            body, offset = await connection.ask(request, version)
            return decode(response_class(type(request)), version, body, offset)[0]

        try:
            session_s = await self._way.log_in(ask, self._peer)
        except KafkaError as error:
            raise NotLetInError(str(error)) from error
        connection.renew_s = None if session_s is None else begun_s + _SESSION_SHARE * session_s

    async def _renew(self, connection: BrokerConnection) -> None:
        """Log in again. The caller has the turn, so no request is sent meanwhile; those in flight
        are answered first.
        """
        try:
            await self._log_in(connection)
        except BaseException as error:
            self._ended_by(error, connection)
            raise

    def _ended_by(self, error: BaseException, connection: BrokerConnection | None) -> None:
        """End a connection that does not come about, or whose session does not go on."""
        if isinstance(error, NotLetInError):
            self._refusals += 1
            self._way.on_refused(error)
        else:
            self._refusals = 0
        if connection is not None:
            connection.end(error if isinstance(error, Exception) else EOFError())

    async def _back_off(self) -> None:
        if self._failed_s is not None:
            wait_s = self._backoff_s
            if self._refusals:
                wait_s = min(wait_s * 2**self._refusals, max(wait_s, _BACKOFF_S_MAX))
            left_s = self._failed_s + wait_s - asyncio.get_running_loop().time()
            if left_s > 0:
                await asyncio.sleep(left_s)

    def _choose(
        self, request: Message, served: dict[int, Versions], highest_version: int | None
    ) -> int:
        key, known = request.spec.key, request.spec.versions
        assert key is not None, "only requests are sent"
        theirs = served.get(key, Versions(0, -1))
        highest = min(known.highest, theirs.highest)
        if highest_version is not None:
            highest = min(highest, highest_version)
        if isinstance(request, LeaderAndIsrRequest) and _is_answered_by_name(request):
            highest = min(highest, _LAST_LEADER_AND_ISR_WITH_NAMES)
        lowest = max(theirs.lowest, _LOWEST_VERSIONS.get(type(request), known.lowest))
        if isinstance(request, AddPartitionsToTxnRequest) and request.transactions:
            lowest = max(lowest, _FIRST_ADD_PARTITIONS_OF_BROKERS)
        if highest < lowest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self._peer} knows {request.spec.name} in versions {theirs}, needed is "
                f"{lowest} to {highest_version or known.highest}"
                + (_MAYBE_DEAF if key in SPEAKERS and key not in served else ""),
            )
        return highest


def _is_answered_by_name(request: LeaderAndIsrRequest) -> bool:
    """Whether an answer by ids could not tell topics without ids apart. An id that an older version
    lacks comes with a later order.
    """
    return sum(topic.topic_id == ZERO_UUID for topic in request.topic_states) > 1
