"""Whatever a stranger sends, and whenever: the gate does what a naive model says, and nothing passes
before a login.

The model does not know frames: it looks back over what the client meant by each.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.sasl.login_gate import LoginGate, Outcome
from tests.unit.sasl.logins import (
    ANN,
    BOB,
    WRONG,
    at,
    authenticate,
    gate,
    handshake,
    produce,
    scram_tokens,
    versions,
)

SESSION_MS = 3_000
FRAMES = {
    "versions": versions(),
    "odd versions": versions(9),
    "handshake": handshake(),
    "old handshake": handshake(version=0),
    "other handshake": handshake("SCRAM-SHA-256"),
    "no handshake": handshake("GSSAPI"),
    "ann": authenticate(ANN),
    "bob": authenticate(BOB, version=1),
    "wrong": authenticate(WRONG, version=0),
    "bare ann": ANN,
    "bare bob": BOB,
    "bare wrong": WRONG,
    "first ann": authenticate(scram_tokens("ann")[0]),
    "last ann": authenticate(scram_tokens("ann")[1]),
    "last bob": authenticate(scram_tokens("bob")[1]),
    "produce": produce(),
    "garbage": b"\x60\x82\x01",
}
HANDSHAKES = {"handshake", "old handshake", "other handshake"}
LOGINS = [
    ("handshake", "ann"),
    ("handshake", "bob"),
    ("old handshake", "bare ann"),
    ("other handshake", "first ann", "last ann"),
]
PIECES = [*LOGINS, *((name,) for name in FRAMES)]
WAITS_MS = [0, 0, 0, 999, 1_000, 3_000]


def flat(pieces: list[tuple[int, tuple[str, ...]]]) -> list[tuple[str, int]]:
    """Return names of frames, each with the wait before it."""
    return [
        (name, 0 if place else wait_ms)
        for wait_ms, names in pieces
        for place, name in enumerate(names)
    ]


pieces = st.sampled_from(LOGINS) | st.sampled_from(PIECES)
sent = st.lists(st.tuples(st.sampled_from(WAITS_MS), pieces), max_size=8).map(flat)


class Model:
    """What a client has got to by the names of its frames."""

    def __init__(self, session_ms: int) -> None:
        self.session_ms = session_ms
        self.history: list[str] = []
        self.user = ""
        self.was_scram = False
        self.ends_ms = 0
        self.again_ms = -9_999
        self.is_dead = False
        self.is_busy = True  # with a login

    def expected(self, name: str, now_ms: int) -> Outcome:
        outcome = self._expected(name, now_ms)
        self.history.append(name)
        self.is_dead = outcome in (Outcome.FAILED, Outcome.EXPIRED)
        return outcome

    def _expected(self, name: str, now_ms: int) -> Outcome:
        if self.is_dead:
            return Outcome.FAILED
        if not self.is_busy:
            is_handshake = name in HANDSHAKES | {"no handshake"}
            if not (self.session_ms and is_handshake and now_ms - self.again_ms >= 1_000):
                is_over = self.session_ms and now_ms >= self.ends_ms
                return Outcome.EXPIRED if is_over else Outcome.PASSED
            self.again_ms, self.is_busy = now_ms, True
            return Outcome.FAILED if name == "no handshake" else Outcome.ANSWERED
        last = self.history[-1] if self.history else ""
        if last in HANDSHAKES or last == "first ann":
            return self._token(last, name, now_ms)
        if name in HANDSHAKES:
            return Outcome.ANSWERED
        is_greeting = name in ("versions", "odd versions") and "versions" not in self.history
        return Outcome.ANSWERED if is_greeting else Outcome.FAILED

    def _token(self, last: str, name: str, now_ms: int) -> Outcome:
        by_scram = last in ("other handshake", "first ann")
        if self.user and by_scram != self.was_scram:
            return Outcome.FAILED
        if (last, name) == ("other handshake", "first ann"):
            return Outcome.ANSWERED
        good = {
            "handshake": ("ann", "bob"),
            "old handshake": ("bare ann", "bare bob"),
            "first ann": ("last ann",),
        }
        user = name.rsplit(maxsplit=1)[-1]
        if name not in good.get(last, ()) or self.user not in ("", user):
            return Outcome.FAILED
        self.user, self.ends_ms, self.is_busy = user, now_ms + self.session_ms, False
        self.was_scram = by_scram
        return Outcome.LOGGED_IN


def played(its: LoginGate, steps: list[tuple[str, int]]) -> list[Outcome]:
    now_ms, found = 0, []
    for name, wait_ms in steps:
        now_ms += wait_ms
        found.append(its.receive(FRAMES[name], at(now_ms)).outcome)
    return found


def modelled(session_ms: int, steps: list[tuple[str, int]]) -> list[Outcome]:
    model, now_ms, found = Model(session_ms), 0, []
    for name, wait_ms in steps:
        now_ms += wait_ms
        found.append(model.expected(name, now_ms))
    return found


@given(sent, st.sampled_from([0, SESSION_MS]))
@settings(max_examples=300)
def test_the_gate_does_what_the_model_says(steps: list[tuple[str, int]], session_ms: int) -> None:
    found = played(gate(session_ms), steps)

    assert found == modelled(session_ms, steps)
    before = found[: found.index(Outcome.LOGGED_IN)] if Outcome.LOGGED_IN in found else found
    assert Outcome.PASSED not in before


@given(st.lists(st.binary(max_size=40) | st.sampled_from(list(FRAMES.values())), max_size=8))
def test_bytes_of_any_kind_are_taken_or_refused_without_an_error(frames_sent: list[bytes]) -> None:
    its = gate()

    found = [its.receive(frame, at(0)).outcome for frame in frames_sent]

    assert Outcome.PASSED not in found or Outcome.LOGGED_IN in found
