"""LoginGate: which frames of a connection pass on a listener with SASL, before all other stages.

Pure. Law: until a login is done nothing passes, however much is sent ahead: ApiVersions and the two
requests of a login are answered here, anything else ends the connection. A frame after the last is
refused like the last. It is the state machine of KIP-43, KIP-152 and KIP-368:

    greeting -> [ApiVersions] -> SaslHandshake -> tokens -> open -> SaslHandshake -> tokens -> open

After SaslHandshake 0 tokens are frames of their own, which are no requests; after version 1 they
come in SaslAuthenticate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from kbroker.errors import ErrorCode, ProtocolError
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.header import RequestHeader, decode_request_header
from kbroker.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kbroker.protocol.schema import Message
from kbroker.sasl.exchange import Exchange, Identity, LoginRefusedError, Turn

AGAIN_MS_MIN = 1_000
"""Between the beginnings of two logins again, as in Kafka: more are answered like stray ones."""
DOCTORS_MECHANISM = "KBROKER-DOCTOR"
"""Offered by nobody: `kbroker doctor` asks with it which ones are."""
_HANDSHAKE = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
_NAMED_MAX = 40  # characters of a client's own word in a reason
_LOG_IN = "set security.protocol and sasl.mechanism in the client"
_CHECK = "check user and password of the client"
_CHECK_ISSUER = "check whom the client has its token from, and the settings sasl.oauthbearer.* here"


class Outcome(Enum):
    """The fate of a frame, and of its connection."""

    ANSWERED = auto()  # the next frame is read
    LOGGED_IN = auto()  # answered; from now on identity and session are those of the gate
    PASSED = auto()  # to the other stages
    FAILED = auto()  # answered, where there is an answer, and closed: both after the delay
    EXPIRED = auto()  # closed at once


class Moment(NamedTuple):
    """The time by two clocks, in milliseconds."""

    wall_ms: int  # tokens end by this one
    steady_ms: int  # sessions end by this one, which nobody sets


class Step(NamedTuple):
    """Says what becomes of a frame."""

    outcome: Outcome
    header: RequestHeader | None = None  # of the request that is answered
    answer: Message | ErrorCode | bytes | None = None
    """An ErrorCode: in the request's own form. Bytes: a frame of their own. None: nothing."""
    reason: str = ""  # of an end, for the log, with what to do


class Offer(NamedTuple):
    """A mechanism that clients may log in by."""

    begin: Callable[[], Exchange]
    session_ms_max: int = 0  # connections.max.reauth.ms; 0: no bound but that of a token
    is_slow: bool = False  # its judge takes longer than a loop may be held
    slow_sign: bytes = b""  # it does so for a frame with this in it only


AnswerVersions = Callable[[RequestHeader, memoryview], Message]
"""Answers ApiVersions of any version: its header, its body. Raises ProtocolError."""


class _State(Enum):
    GREETING = auto()  # ApiVersions or SaslHandshake
    VERSIONS_KNOWN = auto()  # SaslHandshake only
    TOKENS = auto()
    OTHER_MECHANISM = auto()  # of a login again: the next frame is the last
    OPEN = auto()
    ENDED = auto()


class LoginGate:
    """One connection. It has no lock and no loop: where the judge of a login takes its time,
    `receive` may run on a thread, for one frame at a time.
    """

    def __init__(self, offers: Mapping[str, Offer], answer_versions: AnswerVersions) -> None:
        """`offers` by the mechanism's name, in the order in which clients read them."""
        self.identity: Identity | None = None
        self.session_ends_ms: int | None = None  # steady; None: with the connection
        self._offers = offers
        self._answer_versions = answer_versions
        self._state = _State.GREETING
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._is_bare = False
        self._again_ms: int | None = None

    def asks_slow_judge(self, frame: memoryview) -> bool:
        """Whether the next frame should be received on a thread."""
        if self._state is not _State.TOKENS:
            return False
        offer = self._offers[self._mechanism]
        return offer.is_slow and offer.slow_sign in bytes(frame)

    def passes(self, frame: memoryview, steady_ms: float) -> bool:
        """True for most frames of a session; any other has to be received."""
        ends_ms = self.session_ends_ms
        return (
            self._state is _State.OPEN
            and ends_ms is not None
            and steady_ms < ends_ms
            and frame[:2] != _HANDSHAKE
        )

    def receive(self, frame: bytes | memoryview, now: Moment) -> Step:
        """Take the next frame, without its size. After an error of a judge nothing passes."""
        state, self._state = self._state, _State.ENDED
        try:
            step, state = self._taken(state, memoryview(frame), now)
        except ProtocolError as error:
            return Step(Outcome.FAILED, reason=f"not a request of a login: {error}: {_LOG_IN}")
        self._state = state
        return step

    def _taken(self, state: _State, frame: memoryview, now: Moment) -> tuple[Step, _State]:
        if state is _State.OPEN:
            return self._open(frame, now)
        if state is _State.TOKENS:
            return self._bare_token(frame, now) if self._is_bare else self._token(frame, now)
        if state is _State.OTHER_MECHANISM:
            return _failed(f"a login again has to be by {self._mechanism}")
        if state is _State.ENDED:
            return _failed("a frame after the last")
        return self._greeting(state, frame)

    def _greeting(self, state: _State, frame: memoryview) -> tuple[Step, _State]:
        header, offset = decode_request_header(frame)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(header, frame, offset)
        if header.api_key != ApiKey.API_VERSIONS or state is not _State.GREETING:
            return _failed(f"{_name(header)} before a login: {_LOG_IN}")
        answer = self._answer_versions(header, frame[offset:])
        if getattr(answer, "error_code", ErrorCode.NONE) == ErrorCode.NONE:
            state = _State.VERSIONS_KNOWN
        return Step(Outcome.ANSWERED, header, answer), state

    def _handshake(
        self, header: RequestHeader, frame: memoryview, offset: int
    ) -> tuple[Step, _State]:
        mechanism = decode(SaslHandshakeRequest, header.api_version, frame, offset)[0].mechanism
        answer = SaslHandshakeResponse(mechanisms=list(self._offers))
        offer = self._offers.get(mechanism)
        if offer is None:
            answer.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return _failed(self._not_offered(mechanism), header, answer)
        if self.identity is not None and mechanism != self._mechanism:
            return Step(Outcome.ANSWERED, header, answer), _State.OTHER_MECHANISM
        self._mechanism, self._exchange = mechanism, offer.begin()
        self._is_bare = header.api_version == 0
        return Step(Outcome.ANSWERED, header, answer), _State.TOKENS

    def _not_offered(self, mechanism: str) -> str:
        if mechanism == DOCTORS_MECHANISM:
            return "kbroker doctor asks which logins there are, as that of its settings did not do"
        return (
            f"a login by {mechanism[:_NAMED_MAX]!r}, which is not offered: set sasl.mechanism to "
            f"one of {', '.join(self._offers)} in the client"
        )

    def _token(self, frame: memoryview, now: Moment) -> tuple[Step, _State]:
        header, offset = decode_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            reason = f"{_name(header)} amid a login: {_LOG_IN}"
            return _failed(reason, header, ErrorCode.ILLEGAL_SASL_STATE)
        request, _ = decode(SaslAuthenticateRequest, header.api_version, frame, offset)
        try:
            turn, lifetime_ms = self._turn(request.auth_bytes, now)
        except LoginRefusedError as refused:
            refusal = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=refused.said or self._invalid_credentials(),
            )
            return _failed(self._refused(refused), header, refusal)
        answer = SaslAuthenticateResponse(auth_bytes=turn.token, session_lifetime_ms=lifetime_ms)
        return _answered(turn, header, answer)

    def _bare_token(self, frame: memoryview, now: Moment) -> tuple[Step, _State]:
        try:
            turn, _ = self._turn(bytes(frame), now)
        except LoginRefusedError as refused:
            return _failed(self._refused(refused))
        return _answered(turn, None, turn.token)

    def _turn(self, token: bytes, now: Moment) -> tuple[Turn, int]:
        """Take a token. Returns the answer and for how long the session lasts, 0: for ever."""
        if self._exchange is None:
            raise AssertionError("tokens without an exchange")
        turn = self._exchange.receive(token)
        if turn.identity is None:
            return turn, 0
        name = turn.identity.name
        if self.identity is not None and name != self.identity.name:
            raise LoginRefusedError(
                "a login again as another user",
                said="Cannot change principals during re-authentication from "
                f"User.{self.identity.name}: User.{name}",
            )
        lifetime_ms = self._lifetime_ms(turn.identity, now)
        self.identity, self._exchange = turn.identity, None
        self.session_ends_ms = None if lifetime_ms is None else now.steady_ms + lifetime_ms
        return turn, lifetime_ms or 0

    def _lifetime_ms(self, identity: Identity, now: Moment) -> int | None:
        bound_ms = self._offers[self._mechanism].session_ms_max
        bounds_ms = [bound_ms] if bound_ms > 0 else []
        if identity.expires_at_ms is not None:
            bounds_ms.append(identity.expires_at_ms - now.wall_ms)
            if bounds_ms[-1] <= 0:
                raise LoginRefusedError("a token that has expired")
        return min(bounds_ms, default=None)

    def _open(self, frame: memoryview, now: Moment) -> tuple[Step, _State]:
        is_handshake = int.from_bytes(frame[:2], "big") == ApiKey.SASL_HANDSHAKE
        if is_handshake and self._may_log_in_again(now):
            self._again_ms = now.steady_ms
            header, offset = decode_request_header(frame)
            return self._handshake(header, frame, offset)
        if self.session_ends_ms is not None and now.steady_ms >= self.session_ends_ms:
            return Step(Outcome.EXPIRED, reason="its session has expired"), _State.ENDED
        return Step(Outcome.PASSED), _State.OPEN

    def _may_log_in_again(self, now: Moment) -> bool:
        if self.session_ends_ms is None:
            return False
        return self._again_ms is None or now.steady_ms - self._again_ms >= AGAIN_MS_MIN

    def _refused(self, refused: LoginRefusedError) -> str:
        check = _CHECK_ISSUER if self._mechanism == "OAUTHBEARER" else _CHECK
        return f"a login by {self._mechanism} is refused: {refused}: {check}"

    def _invalid_credentials(self) -> str:
        what = "authentication" if self.identity is None else "re-authentication"
        return (
            f"Authentication failed during {what} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )


def _answered(
    turn: Turn, header: RequestHeader | None, answer: Message | bytes
) -> tuple[Step, _State]:
    if turn.identity is None:
        return Step(Outcome.ANSWERED, header, answer), _State.TOKENS
    return Step(Outcome.LOGGED_IN, header, answer), _State.OPEN


def _failed(
    reason: str, header: RequestHeader | None = None, answer: Message | ErrorCode | None = None
) -> tuple[Step, _State]:
    return Step(Outcome.FAILED, header, answer, reason), _State.ENDED


def _name(header: RequestHeader) -> str:
    return ApiKey(header.api_key).name if header.api_key in _KEYS else f"API key {header.api_key}"


_KEYS = frozenset(ApiKey)
