"""What passes a listener with logins, and what is answered, in the simplest words: frames are known
by their kind, and nothing is decoded.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.unit.sasl.logins import ANN, BOB, WRONG, scram_tokens

SESSION_MS = 5_000
AGAIN_MS = 1_000
SCRAM = "SCRAM-SHA-256"
OFFERED = ("PLAIN", SCRAM)
FIRSTS = {scram_tokens(name)[0]: name for name in ("ann", "bob")}
LASTS = {scram_tokens(name)[1]: name for name in ("ann", "bob")}
PLAIN_USERS = {ANN: "ann", BOB: "bob"}
TOKENS = (ANN, BOB, WRONG, *FIRSTS, *LASTS, b"", b"\xff")


class Sent(NamedTuple):
    """A frame as the client sends it, and what kind it is of."""

    data: bytes
    kind: str  # versions, old versions, handshake, cut handshake, token, request, large, garbage
    number: int  # its correlation id
    mechanism: str = ""
    is_bare: bool = False  # what a handshake asks for
    token: bytes = b""


class Model:
    """A connection. `answered` are numbers of requests, None for a token without a request; `passed`
    are those of requests that went further, with the user.
    """

    def __init__(self, session_ms: int) -> None:
        self.session_ms = session_ms
        self.passed: list[tuple[int, str]] = []
        self.answered: list[int | None] = []
        self.is_over = False
        self.user = ""
        self._mechanism = ""  # of the login that has begun
        self._mechanism_before = ""
        self._is_bare = False
        self._step = 0  # messages of SCRAM that were taken
        self._scram_user = ""
        self._is_other_mechanism = False
        self._knows_versions = False
        self._ends_ms = 0
        self._again_ms = -AGAIN_MS

    def take(self, sent: Sent, now_ms: int) -> None:
        """The next frame is whole."""
        if self.is_over:
            return
        if (sent.kind == "large" and not self.user) or self._is_other_mechanism:
            self.is_over = True
        elif self._mechanism:
            self._token(sent, now_ms)
        elif self.user:
            self._open(sent, now_ms)
        else:
            self._greeting(sent)

    def _greeting(self, sent: Sent) -> None:
        if sent.kind in ("versions", "old versions") and not self._knows_versions:
            self.answered.append(sent.number)
            self._knows_versions = sent.kind == "versions"
        elif sent.kind == "handshake":
            self._handshake(sent)
        else:
            self.is_over = True

    def _handshake(self, sent: Sent) -> None:
        self.answered.append(sent.number)
        if sent.mechanism not in OFFERED:
            self.is_over = True
        elif self.user and sent.mechanism != self._mechanism_before:
            self._is_other_mechanism = True
        else:
            self._mechanism = sent.mechanism
            self._is_bare, self._step = sent.is_bare, 0

    def _token(self, sent: Sent, now_ms: int) -> None:
        if not self._is_bare and sent.kind != "token":
            self.is_over = True
            if sent.kind != "garbage":
                self.answered.append(sent.number)
            return
        token = sent.data if self._is_bare else sent.token
        user, goes_on = self._judged(token)
        if goes_on or (user and self.user in ("", user)):
            self.answered.append(None if self._is_bare else sent.number)
        else:
            self.is_over = True
            if not self._is_bare:
                self.answered.append(sent.number)
            return
        if user:
            self.user, self._mechanism_before = user, self._mechanism
            self._mechanism, self._ends_ms = "", now_ms + self.session_ms

    def _judged(self, token: bytes) -> tuple[str, bool]:
        """The user whose login is done, and whether it goes on."""
        if self._mechanism == "PLAIN":
            return PLAIN_USERS.get(token, ""), False
        self._step += 1
        if self._step == 1:
            self._scram_user = FIRSTS.get(token, "")
            return "", bool(self._scram_user)
        is_proof = LASTS.get(token) == self._scram_user
        return (self._scram_user if is_proof else ""), False

    def _open(self, sent: Sent, now_ms: int) -> None:
        is_handshake = sent.kind in ("handshake", "cut handshake")
        if is_handshake and self.session_ms and now_ms - self._again_ms >= AGAIN_MS:
            self._again_ms = now_ms
            if sent.kind == "handshake":
                self._handshake(sent)
            else:
                self.is_over = True
        elif (self.session_ms and now_ms >= self._ends_ms) or sent.kind == "garbage":
            self.is_over = True
        else:
            self.passed.append((sent.number, self.user))
            self.answered.append(sent.number)
