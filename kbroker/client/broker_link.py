"""BrokerLink: one open connection of a command to a broker, over a blocking socket, with TLS and a
login if the settings ask for them.

Law: answers are taken in the order of requests. Whatever ends a link (a cut, a wrong answer, none
in time) is an OSError with a sentence for a person; the link is of no use after that, and its
`in_flight` holds what was not answered. Settings that do not fit the broker are a ClientError
instead, because trying again would not help. The versions are the highest that both sides know,
settled by ApiVersions (KIP-511).
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from select import select
from typing import Any, NamedTuple, TypeVar

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import CLIENT_ID, UNSECURED, ConnectionSettings
from kbroker.client.link_refusals import check_first_bytes, login_hint, no_tls, refused, tls_hint
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.frame import SIZE
from kbroker.protocol.header import RequestHeader, decode_response_header, encode_request_header
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.request import NO_VERSION, OWN_SOFTWARE
from kbroker.protocol.schema import Message, Versions, response_class

_ANSWER_BYTES_MAX = 100 * 1024 * 1024
_ASKED_VERSION = 3  # of ApiVersions: what brokers since Kafka 2.4 know; older ones answer with 35
_CODE_AT = 4  # in an answer to ApiVersions of any version: after the correlation id
_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_WANTED: dict[int, Versions] = {
    ApiKey.PRODUCE: Versions(3, 11),  # format 2; later ones are for KIP-890's transactions
    ApiKey.ADD_PARTITIONS_TO_TXN: Versions(0, 3),  # later ones are for brokers
    ApiKey.END_TXN: Versions(0, 4),
    ApiKey.TXN_OFFSET_COMMIT: Versions(0, 4),
    ApiKey.FETCH: Versions(4, 12),  # later ones name topics by id, as do those of the next two
    ApiKey.OFFSET_COMMIT: Versions(2, 9),
    ApiKey.OFFSET_FETCH: Versions(2, 9),
    ApiKey.LIST_OFFSETS: Versions(1, 11),
    ApiKey.METADATA: Versions(1, 13),  # with null for all topics
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Versions(2, 4),  # earlier ones are for brokers
}
_PROBE_S = 2.0
_LOGIN_SHARE = 0.85  # of a login's life, after which it is renewed, as Kafka's clients do


def _nobody_hears(_request: Message | type[Message], _answer: Any) -> None:
    pass


WatchedT = TypeVar("WatchedT", bound=Any)


class Asked(NamedTuple):
    """A request that has no answer yet; its sender gets `context` back with the answer."""

    request: type[Message]
    version: int
    correlation_id: int
    context: Any


class BrokerLink:
    """A connection that is ready for requests once it is made. Making it raises OSError and
    ClientError.
    """

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        settings: ConnectionSettings = UNSECURED,
    ) -> None:
        """`timeout_s` bounds connecting, each send and the wait for each answer; time-outs in the
        settings win over it.
        """
        self.name = f"{host}:{port}"
        self.in_flight: deque[Asked] = deque()
        self._settings = settings
        self._client_id = settings.client_id or CLIENT_ID
        self._correlation_id = 0
        self._served: dict[int, Versions] = {}
        self._renew_s: float | None = None  # when the login should be renewed
        self._pending: Callable[[], int] | None = None  # bytes that TLS has decrypted
        self.hear: Callable[[Message | type[Message], Any], None] = _nobody_hears
        self._is_proven = False  # whether a request that needs a login was answered
        timeout_s = settings.request_timeout_s or timeout_s
        try:
            self._socket = socket.create_connection(
                (host, port), timeout=settings.connect_timeout_s or timeout_s
            )
        except (OSError, UnicodeError) as error:  # a broker may give anything as a host
            raise ConnectionRefusedError(f"{self.name}: {_reason(error)}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(timeout_s)
            self._open(host, port)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_bytes(self) -> bool:
        """Whether TLS holds bytes of an answer, which `select` does not see."""
        return self._pending is not None and self._pending() > 0

    @property
    def is_to_renew(self) -> bool:
        """Whether the broker will soon end the link because its login is getting old (KIP-368)."""
        return self._renew_s is not None and time.monotonic() > self._renew_s

    @property
    def served(self) -> Mapping[int, Versions]:
        return self._served

    def send(self, request: Message, context: Any = None, *, is_answered: bool = True) -> None:
        """Send a request; `take` returns `context` with its answer.

        Raises OSError, and KafkaError UNSUPPORTED_VERSION.
        """
        self._send(request, self._version(request), context, is_answered)

    def take(self) -> tuple[Any, Any]:
        """Wait for the answer to the oldest request; returns (context, answer). Raises OSError."""
        asked = self.in_flight[0]
        frame = self._frame(asked.request)
        try:
            key = asked.request.spec.key or 0
            correlation_id, offset = decode_response_header(frame, key, asked.version)
            if correlation_id != asked.correlation_id:
                raise ProtocolError("an answer to another request")
            answer, _ = decode(response_class(asked.request), asked.version, frame, offset)
        except ProtocolError as error:
            raise self._wrong(error) from error
        self.in_flight.popleft()
        self.hear(asked.context if isinstance(asked.context, Message) else asked.request, answer)
        return asked.context, answer

    def ask(self, request: Message) -> Any:
        """Send a request on an idle link and wait for the answer; raises what these two raise."""
        assert not self.in_flight, "answers come in order"
        self.send(request, request)
        return self.take()[1]

    def close(self) -> None:
        self._socket.close()

    def _open(self, host: str, port: int) -> None:
        settings = self._settings
        if settings.tls is not None:
            self._secure(host, port)
        self._negotiate()
        if settings.login is not None:
            from kbroker.client.sasl_login import log_in  # most brokers ask for none

            begun_s = time.monotonic()
            lifetime_s = log_in(self.ask, settings.login, self.name)
            if lifetime_s is not None:
                self._renew_s = begun_s + _LOGIN_SHARE * lifetime_s
        self._is_proven = False

    def _secure(self, host: str, port: int) -> None:
        from kbroker.client.tls import secured, tls_reason  # most commands need no TLS

        assert self._settings.tls is not None, "TLS is wanted"
        try:
            over_tls = secured(self._socket, host, self._settings.tls)
            self._socket, self._pending = over_tls, over_tls.pending
        except TimeoutError as error:
            raise TimeoutError(f"{self.name} does not complete the TLS handshake") from error
        except OSError as error:
            reason = tls_reason(error, host, self._settings.tls)
            if reason is None and _speaks_plaintext(host, port):
                reason = no_tls(self._settings)
            if reason is not None:
                raise refused(self.name, reason) from error
            raise ConnectionResetError(f"{self.name}: TLS fails: {_reason(error)}") from error

    def _negotiate(self) -> None:
        ask = ApiVersionsRequest(
            client_software_name=OWN_SOFTWARE, client_software_version=NO_VERSION
        )
        # A broker that does not know the version says so in the form of version 0 (KIP-511).
        for version in (_ASKED_VERSION, 0):
            self._send(ask, version, None, is_answered=True)
            self.in_flight.clear()
            frame = self._frame(ApiVersionsRequest)
            if bytes(frame[_CODE_AT : _CODE_AT + 2]) == _UNSUPPORTED:
                continue
            try:
                answer, _ = decode(ApiVersionsResponse, version, frame, _CODE_AT)
            except ProtocolError as error:
                raise self._wrong(error) from error
            self._served = {
                entry.api_key: Versions(entry.min_version, entry.max_version)
                for entry in answer.api_keys
            }
            return
        raise self._wrong("no versions")

    def _send(self, request: Message, version: int, context: Any, is_answered: bool) -> None:
        key = request.spec.key
        assert key is not None, "only requests are sent"
        self._correlation_id += 1
        head = encode_request_header(
            RequestHeader(key, version, self._correlation_id, self._client_id)
        )
        frame = encode(request, version, head)
        if is_answered:
            self.in_flight.append(Asked(type(request), version, self._correlation_id, context))
        try:
            self._socket.sendall(b"".join((SIZE.pack(len(frame)), frame)))
        except TimeoutError as error:
            raise TimeoutError(f"{self.name} does not read its requests") from error
        except OSError as error:
            raise ConnectionResetError(f"{self.name}: {_reason(error)}") from error

    def _version(self, request: Message) -> int:
        key = request.spec.key or 0
        known = _WANTED.get(key, request.spec.versions)
        if isinstance(request, ListOffsetsRequest):
            known = Versions(max(known.lowest, request.lowest_version), known.highest)
        served = self._served.get(key, Versions(0, -1))
        version = min(known.highest, served.highest)
        if version < max(known.lowest, served.lowest):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.name} serves {request.spec.name} in versions {served}, "
                f"needed is one of {known}",
            )
        return version

    def _frame(self, request: type[Message]) -> memoryview:
        try:
            head = self._receive(SIZE.size)
            (size,) = SIZE.unpack(head)
            if not 0 <= size <= _ANSWER_BYTES_MAX:
                check_first_bytes(self.name, bytes(head), self._settings)
                raise ConnectionResetError(f"it sent an answer of {size} bytes")
            frame = self._receive(size)
        except TimeoutError as error:
            raise TimeoutError(f"{self.name} gave no answer to {request.spec.name}") from error
        except OSError as error:
            raise ConnectionResetError(f"{self.name}: {self._hint(error)}") from error
        self._is_proven = True
        return frame

    def _hint(self, error: OSError) -> str:
        if self._settings.tls is not None:
            from kbroker.client.tls import tls_reason

            reason = tls_reason(error, self.name, self._settings.tls)
            if reason is not None:
                return reason
        elif not self._served:  # a port with TLS may close before it has read what it was sent
            return f"{_reason(error)} {tls_hint(self._settings)}"
        if self._served and not self._is_proven and self._settings.login is None:
            return f"{_reason(error)} {login_hint(self._settings)}"
        return _reason(error)

    def _wrong(self, what: object) -> ConnectionResetError:
        return ConnectionResetError(f"{self.name} sent {what}: is it a Kafka broker?")

    def _receive(self, size_bytes: int) -> memoryview:
        view = memoryview(bytearray(size_bytes))
        filled = 0
        while filled < size_bytes:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionResetError("it closed the connection")
            filled += count
        return view


def readable(watched: Sequence[WatchedT], timeout_s: float | None) -> list[WatchedT]:
    """Return which of these can be read now, as `select` does; links that have bytes can too."""
    waiting = [each for each in watched if getattr(each, "has_bytes", False)]
    ready, _, _ = select(watched, [], [], 0 if waiting else timeout_s)
    return [*waiting, *(each for each in ready if each not in waiting)]


def _speaks_plaintext(host: str, port: int) -> bool:
    try:
        BrokerLink(host, port, _PROBE_S).close()
    except (OSError, ClientError):
        return False
    return True


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
