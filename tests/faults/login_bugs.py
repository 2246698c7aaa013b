"""Known mistakes of logins, each a context manager that makes a listener commit it.

The hunt must find every one of them: otherwise that it finds nothing means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import PropertyMock, patch

from kbroker.network.connection_login import ConnectionLogin, ListenerLogins
from kbroker.network.login_channel import LoginChannel
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.request import ConnectionInfo, NoResponse, Response
from kbroker.sasl import login_gate, scram_server
from kbroker.sasl.exchange import Turn
from kbroker.sasl.login_gate import LoginGate, Outcome, Step
from kbroker.sasl.plain import PlainServer
from kbroker.sasl.scram_server import ScramServer
from tests.fakes.requests.login_listener import FRAME_BYTES_MAX

Mistake = Callable[[], AbstractContextManager[Any]]


def produce_passes_amid_a_login() -> AbstractContextManager[Any]:
    """Requests pass once a login has begun."""
    original = LoginGate._token

    def token(self: LoginGate, frame: memoryview, now: Any) -> Any:
        if frame[:2] == b"\0\0":
            return Step(Outcome.PASSED), self._state.TOKENS
        return original(self, frame, now)

    return patch.object(LoginGate, "_token", token)


def gate_lives_on_after_a_refusal() -> AbstractContextManager[Any]:
    """A client may go on after a login that failed, and is answered at once."""

    def refuse(self: LoginChannel, _reason: str, answer: bytes | None) -> None:
        self.complete(NoResponse() if answer is None else Response([answer]))

    return patch.object(LoginChannel, "refuse", refuse)


def first_message_of_scram_is_enough() -> AbstractContextManager[Any]:
    """A user who exists is logged in by the name alone."""
    original = ScramServer._begin

    def begin(self: ScramServer, first: Any) -> Turn:
        turn = original(self, first)
        return Turn(turn.token, self._identity)

    return patch.object(ScramServer, "_begin", begin)


def proof_not_checked() -> AbstractContextManager[Any]:
    """Any last message of SCRAM will do."""
    return patch.object(ScramServer, "_is_proof", lambda *_: True)


def proof_of_another_name() -> AbstractContextManager[Any]:
    """A proof is looked at as if another had asked for it."""
    original = scram_server.parse_client_first

    def parse(message: bytes) -> Any:
        first = original(message)
        return first._replace(bare=first.bare.replace("n=bob", "n=ann"))

    return patch.object(scram_server, "parse_client_first", parse)


def password_not_checked() -> AbstractContextManager[Any]:
    """The name of a user is enough for PLAIN."""
    original = PlainServer.receive

    def receive(self: PlainServer, token: bytes) -> Turn:
        self._check = lambda username, _: username in ("ann", "bob")
        return original(self, token)

    return patch.object(PlainServer, "receive", receive)


def tokens_stay_bare() -> AbstractContextManager[Any]:
    """After SaslHandshake 0 a login again by version 1 has bare tokens, too."""
    original = LoginGate._handshake

    def handshake(self: LoginGate, *arguments: Any) -> Any:
        was_bare = self._is_bare
        found = original(self, *arguments)
        self._is_bare = self._is_bare or was_bare
        return found

    return patch.object(LoginGate, "_handshake", handshake)


def another_user_by_a_login_again() -> AbstractContextManager[Any]:
    """A session becomes that of another user."""
    original = LoginGate._turn

    def turn(self: LoginGate, token: bytes, now: Any) -> Any:
        self.identity = None
        return original(self, token, now)

    return patch.object(LoginGate, "_turn", turn)


def another_mechanism_by_a_login_again() -> AbstractContextManager[Any]:
    """A login again is by whatever mechanism."""
    original = LoginGate._handshake

    def handshake(self: LoginGate, *arguments: Any) -> Any:
        identity, self.identity = self.identity, None
        try:
            return original(self, *arguments)
        finally:
            self.identity = identity

    return patch.object(LoginGate, "_handshake", handshake)


def sessions_never_end() -> AbstractContextManager[Any]:
    """Requests of an expired session pass."""
    original = LoginGate._open

    def open_(self: LoginGate, frame: memoryview, now: Any) -> Any:
        step, state = original(self, frame, now)
        if step.outcome is Outcome.EXPIRED:
            return Step(Outcome.PASSED), self._state.OPEN
        return step, state

    return patch.object(LoginGate, "_open", open_)


def gate_taken_off_too_early() -> AbstractContextManager[Any]:
    """Nobody looks at the session of a client that is logged in."""
    is_in_the_way = PropertyMock(return_value=False)
    return patch.object(ConnectionLogin, "is_in_the_way", is_in_the_way)


def logins_again_at_any_time() -> AbstractContextManager[Any]:
    """Clients may log in again as often as they like."""
    return patch.object(login_gate, "AGAIN_MS_MIN", 0)


def large_frames_before_a_login() -> AbstractContextManager[Any]:
    """Strangers send frames as large as those of users."""
    size = PropertyMock(return_value=FRAME_BYTES_MAX)
    return patch.object(ConnectionLogin, "max_frame_bytes", size)


def next_frame_while_a_judge_is_asked() -> AbstractContextManager[Any]:
    """Frames are read on while a thread looks at a token."""
    original = LoginChannel._passes

    def passes(self: LoginChannel, *arguments: Any) -> bool:
        found = original(self, *arguments)
        if not found:
            self._busy = self._in_work = False
        return found

    return patch.object(LoginChannel, "_passes", passes)


def login_again_before_earlier_answers() -> AbstractContextManager[Any]:
    """A login again does not wait for requests before it."""
    original = LoginChannel._passes

    def passes(self: LoginChannel, *arguments: Any) -> bool:
        with patch.object(type(self._line), "admits", lambda *_: True):
            return original(self, *arguments)

    return patch.object(LoginChannel, "_passes", passes)


def principal_not_set() -> AbstractContextManager[Any]:
    """Requests pass in nobody's name."""
    original = ConnectionLogin.__init__

    def init(self: ConnectionLogin, logins: ListenerLogins, connection: ConnectionInfo) -> None:
        original(self, logins._replace(let_in=lambda *_: None), connection)

    return patch.object(ConnectionLogin, "__init__", init)


def unknown_mechanisms_are_taken() -> AbstractContextManager[Any]:
    """A mechanism that is not offered is the first one that is."""
    original = login_gate.decode

    def decode(*arguments: Any) -> Any:
        message, size = original(*arguments)
        if getattr(message, "mechanism", "") == "GSSAPI":
            message.mechanism = "PLAIN"
        return message, size

    return patch.object(login_gate, "decode", decode)


def versions_are_answered_amid_a_login() -> AbstractContextManager[Any]:
    """ApiVersions passes for a token."""
    original = LoginGate._token

    def token(self: LoginGate, frame: memoryview, now: Any) -> Any:
        if int.from_bytes(frame[:2], "big") == ApiKey.API_VERSIONS:
            return self._greeting(self._state.GREETING, frame)
        return original(self, frame, now)

    return patch.object(LoginGate, "_token", token)


PLANTED: tuple[Mistake, ...] = (
    produce_passes_amid_a_login,
    gate_lives_on_after_a_refusal,
    first_message_of_scram_is_enough,
    proof_not_checked,
    proof_of_another_name,
    password_not_checked,
    tokens_stay_bare,
    another_user_by_a_login_again,
    another_mechanism_by_a_login_again,
    sessions_never_end,
    gate_taken_off_too_early,
    logins_again_at_any_time,
    large_frames_before_a_login,
    next_frame_while_a_judge_is_asked,
    login_again_before_earlier_answers,
    principal_not_set,
    unknown_mechanisms_are_taken,
    versions_are_answered_amid_a_login,
)
