"""Sends generated sequences of frames to a listener with logins, cut anywhere, and compares what
passes and what is answered with a naive model: `python -m tests.faults.login_hunt --sequences 300000
--seed 1`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import struct
from collections import Counter
from random import Random
from typing import Any

from kbroker.network.request_channel import Replier
from kbroker.protocol.request import Request, Response
from kbroker.sasl.login_gate import LoginGate, Offer
from kbroker.sasl.plain import PlainServer
from tests.fakes.requests.login_listener import (
    BEFORE_LOGIN_BYTES_MAX,
    ListenedConnection,
    LoginListener,
    sized,
)
from tests.faults.login_model import OFFERED, SCRAM, SESSION_MS, TOKENS, Model, Sent
from tests.unit.sasl.logins import (
    USERS,
    answer_versions,
    authenticate,
    handshake,
    produce,
    scram,
    versions,
)

FRAMES_MAX = 14
_GARBAGE = (b"", b"\x60\x82\x01\x02", b"\x7f\xff" * 8, b"\x00\x11", b"GET / HTTP/1.1")
_JUMPS_MS = (0, 0, 0, 1, 999, 1_000, 4_000, SESSION_MS - 1, SESSION_MS)
# What leads to a login is more probable than anything else, or few would ever be done.
_KINDS = {
    "login": 30, "versions": 6, "old versions": 3, "handshake": 8, "cut handshake": 2, "token": 8,
    "bare": 6, "request": 18, "large": 3, "garbage": 3,
}  # fmt: skip


class Hunt:
    """Sequences of one seed, and what was found."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._seed = seed
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []

    async def run(self, sequences: int, is_enough: int) -> None:
        """Play so many sequences, or until so many differences are found."""
        for number in range(sequences):
            found = await self._sequence()
            if found:
                self.differences.append(f"seed {self._seed}, sequence {number}: {found}")
            if len(self.differences) >= is_enough:
                return

    async def _sequence(self) -> str:
        random = self._random
        session_ms, is_slow = random.choice((0, SESSION_MS)), random.random() < 0.3
        offers = {
            "PLAIN": Offer(lambda: PlainServer(USERS), session_ms, is_slow),
            SCRAM: Offer(scram, session_ms, is_slow),
        }
        listener = LoginListener(lambda: LoginGate(offers, answer_versions))
        broker = _Broker(listener, random)
        client = await listener.connect()
        model = Model(session_ms)
        sent = self._frames()
        data = sized(*(each.data for each in sent))
        ends, end = [], 0
        for each in sent:
            end += 4 + len(each.data)
            ends.append(end)
        cuts = sorted({random.randrange(1, len(data)) for _ in range(random.choice((0, 1, 3, 9)))})
        answered: list[bytes] = []
        taken = at = 0
        for cut in (*cuts, len(data)):
            answered += await client.send_bytes(data[at:cut])
            answered += await broker.settle(client)
            at = cut
            while taken < len(sent) and ends[taken] <= cut:
                model.take(sent[taken], int(listener.time.monotonic_ms()))
                taken += 1
            listener.time.advance(random.choice(_JUMPS_MS))
        self._count(model, sent)
        return _difference(model, broker, client, answered)

    def _frames(self) -> list[Sent]:
        random, frames = self._random, list[Sent]()
        while len(frames) < FRAMES_MAX and (not frames or random.random() < 0.9):
            kind = random.choices(list(_KINDS), list(_KINDS.values()))[0]
            if kind == "login":
                frames += self._login(len(frames))
            else:
                frames.append(self._frame(kind, len(frames)))
        return frames

    def _login(self, number: int) -> list[Sent]:
        """The frames of a login, most of which is right if it is the right moment."""
        random = self._random
        mechanism, is_bare = random.choice(OFFERED), random.random() < 0.3
        user = random.randrange(2)
        tokens = [TOKENS[user]] if mechanism == "PLAIN" else [TOKENS[3 + user], TOKENS[5 + user]]
        if random.random() < 0.2:
            tokens[-1] = random.choice(TOKENS)
        return [
            self._handshake(number, mechanism, is_bare=is_bare),
            *(self._token(number + 1 + n, token, is_bare) for n, token in enumerate(tokens)),
        ]

    def _frame(self, kind: str, number: int) -> Sent:
        random = self._random
        if kind == "versions":
            return Sent(_numbered(versions(random.randrange(5)), number), kind, number)
        if kind == "old versions":
            return Sent(_numbered(versions(9), number), kind, number)
        if kind in ("handshake", "cut handshake"):
            mechanism = random.choice((*OFFERED, "GSSAPI", "plain"))
            whole = self._handshake(number, mechanism, is_bare=random.random() < 0.3)
            is_whole = kind == "handshake"
            return whole if is_whole else whole._replace(data=whole.data[:-2], kind=kind)
        if kind in ("token", "bare"):
            return self._token(number, random.choice(TOKENS), kind == "bare")
        if kind == "large":
            return Sent(_numbered(produce() + bytes(BEFORE_LOGIN_BYTES_MAX), number), kind, number)
        if kind == "request":
            return Sent(_numbered(produce(), number), kind, number)
        return Sent(random.choice(_GARBAGE), "garbage", number)

    def _handshake(self, number: int, mechanism: str, *, is_bare: bool) -> Sent:
        data = _numbered(handshake(mechanism, 0 if is_bare else 1), number)
        return Sent(data, "handshake", number, mechanism, is_bare)

    def _token(self, number: int, token: bytes, is_bare: bool) -> Sent:
        if is_bare:
            return Sent(token, "garbage", number, token=token)  # as it is no request
        data = _numbered(authenticate(token, self._random.randrange(3)), number)
        return Sent(data, "token", number, token=token)

    def _count(self, model: Model, sent: list[Sent]) -> None:
        self.counts["sequences"] += 1
        self.counts["frames"] += len(sent)
        self.counts["logins"] += bool(model.user)
        self.counts["passed"] += len(model.passed)


class _Broker:
    """Takes what passes, and answers later or at once."""

    def __init__(self, listener: LoginListener, random: Random) -> None:
        self._random = random
        self._listener = listener
        self._owed: list[tuple[Replier, int]] = []
        self._users: dict[int, str] = {}
        self.passed: list[tuple[int, str]] = []
        listener.queue.attach(self._take, lambda *_: None)

    def _take(self, replier: Replier, request: Request) -> None:
        number = request.header.correlation_id
        self.passed.append((number, request.connection.principal.removeprefix("User:")))
        if request.header.api_key == 0 and self._random.random() < 0.6:  # as Produce is carried out
            replier = replier.accept(asyncio.get_running_loop().create_future())
        self._owed.append((replier, number))

    async def settle(self, client: ListenedConnection) -> list[bytes]:
        """Let everything happen that is under way, in any order; returns the answers that came."""
        answers: list[bytes] = []
        judged = self._listener.judged
        while self._owed or judged:
            work: list[Any] = self._random.choice([each for each in (self._owed, judged) if each])
            one = work.pop(self._random.randrange(len(work)))
            if work is judged:
                one()
            else:
                one[0].complete(Response([struct.pack(">i", one[1])]))
            answers += await client.answers()
        return answers + await client.answers()


def _numbered(frame: bytes, number: int) -> bytes:
    """The request with another correlation id."""
    return frame[:4] + struct.pack(">i", number) + frame[8:]


def _difference(
    model: Model, broker: _Broker, client: ListenedConnection, answered: list[bytes]
) -> str:
    """How the connection went otherwise than in the model; empty if it did not."""
    if broker.passed != model.passed:
        return f"passed: {broker.passed}, in the model {model.passed}"
    if client.wire.is_closed != model.is_over:
        return f"closed: {client.wire.is_closed}, in the model {model.is_over}"
    if len(answered) != len(model.answered):
        return f"{len(answered)} answers, in the model {len(model.answered)}"
    for answer, number in zip(answered, model.answered, strict=True):
        if number is not None and answer[:4] != struct.pack(">i", number):
            return f"answer {answer[:4].hex()} where {number} was to come"
    user = client.principal.removeprefix("User:")
    return "" if user == (model.user or "ANONYMOUS") else f"user {user}, in the model {model.user}"


def hunt(seed: int, sequences: int, is_enough: int = 20) -> Hunt:
    """Play sequences of one seed, until so many differences are found."""
    its = Hunt(seed)
    asyncio.run(its.run(sequences, is_enough))
    return its


def main() -> None:
    """Hunt, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    its = hunt(arguments.seed, arguments.sequences)
    print(dict(its.counts), f"{len(its.differences)} differences", *its.differences, sep="\n")


if __name__ == "__main__":
    main()
