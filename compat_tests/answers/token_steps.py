"""The steps of sequences about delegation tokens: requests and logins, and what each shows. Times are
shown as the time from now.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from compat_tests.answers.authorized import Authorized
from compat_tests.answers.logins import (
    AUTHENTICATE,
    HANDSHAKE,
    Player,
    handshake,
    plain,
    scram_first,
    scram_last,
)
from compat_tests.answers.rules import ALLOW, CREATE_ACLS, DELETE_ACLS, EVERYTHING, LITERAL
from compat_tests.clients.raw_connection import ClosedError, RawConnection

CREATE, RENEW, EXPIRE, DESCRIBE = range(38, 42)
PASSWORDS = {"ann": "ann-secret", "bob": "bob-secret", "zoe": "zoe-secret"}
SETTLES_S = 1.0  # the time in which a broker of KRaft hears of what its controller did
TOKEN_AUTH = ",tokenauth=true"
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


class Token(NamedTuple):
    """A token as its owner got it."""

    token_id: str
    hmac: bytes

    @property
    def password(self) -> str:
        return base64.b64encode(self.hmac).decode()


class Stage:
    """One broker, its users, and the tokens of the sequence that is played."""

    def __init__(self, broker: Authorized) -> None:
        self.admin = RawConnection(broker.bootstrap, 20)
        self.port = broker.port
        self._pause_s = SETTLES_S if broker.settles else 0.0
        self._users: dict[str, RawConnection] = {}
        self.tokens: dict[str, Token] = {}
        self.player: Player | None = None
        topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
        self.admin.call(19, 5, topics=topics, timeout=10_000)

    def settle(self) -> None:
        """Let a change come into force."""
        time.sleep(self._pause_s)

    def connection(self, user: str) -> RawConnection:
        """The connection of a user; nobody is on the port without logins."""
        if user == "nobody":
            return self.admin
        if user not in self._users:
            connection = RawConnection(f"127.0.0.1:{self.port}", 20)
            connection.call(HANDSHAKE, 1, mechanism="PLAIN")
            answer = connection.call(AUTHENTICATE, 2, auth_bytes=plain(user, PASSWORDS[user]))
            assert answer.error_code == 0
            self._users[user] = connection
        return self._users[user]

    def ask(
        self, user: str, key: int, version: int, show: Callable[[Any], str], **fields: Any
    ) -> str:
        """Ask for a user, by a token if the user is called so; returns what the answer shows."""
        try:
            if user == "token":
                assert self.player is not None
                return self.player.ask(key, version, show, **fields)
            return show(self.connection(user).call(key, version, **fields))
        except ClosedError:
            self._users.pop(user, None)
            return "closed"

    def token(self, label: str) -> Token:
        """A token of this sequence; another label is one that does not exist."""
        return self.tokens.get(label, Token(label, label.encode()))

    def label(self, token_id: str) -> str | None:
        return next((name for name, each in self.tokens.items() if each.token_id == token_id), None)

    def begin(self) -> None:
        """Forget the sequence before."""
        self.tokens.clear()
        self.hang_up()
        self.admin.call(DELETE_ACLS, 1, filters=[EVERYTHING])
        self.settle()

    def hang_up(self) -> None:
        if self.player is not None:
            self.player.connection.close()
            self.player = None


Step = Callable[[Stage], str]


def from_now(milliseconds: int) -> str:
    """A time of an answer, as seconds from now where it is one."""
    if milliseconds < 1_000_000_000_000:
        return str(milliseconds)
    return f"in {hundreds(milliseconds / 1_000 - time.time())} s"


def hundreds(seconds: float) -> int:
    """Seconds so that it counts little how quick a machine is."""
    return round(seconds / 100) * 100


def create(user: str = "ann", label: str = "a", version: int = 3, **fields: Any) -> Step:
    """CreateDelegationToken; `owner`, `kind` (of the owner) and `renewers` as (type, name)."""
    renewers = fields.get("renewers", ())
    values: dict[str, Any] = {
        "renewers": [{"principal_type": k, "principal_name": n} for k, n in renewers],
        "max_lifetime": fields.get("longest_ms", -1),
    }
    if version >= 3:
        values["owner_principal_name"] = fields.get("owner")
        values["owner_principal_type"] = fields.get("kind", "User" if "owner" in fields else None)

    def step(stage: Stage) -> str:
        def show(answer: Any) -> str:
            if not answer.error_code:
                stage.tokens[label] = Token(answer.token_id, answer.hmac)
            requester = (
                f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
                if version >= 3
                else ""
            )
            times = (answer.issue_timestamp, answer.expiry_timestamp, answer.max_timestamp)
            return (
                f"{int(answer.error_code)} {answer.principal_type}:{answer.principal_name} "
                f"{requester} {', '.join(map(from_now, times))}, {len(answer.token_id)}, "
                f"{len(answer.hmac)}"
            )

        came = stage.ask(user, CREATE, version, show, **values)
        stage.settle()
        return came

    return step


def _timed(key: int, field: str, user: str, label: str, period_ms: int, version: int) -> Step:
    def step(stage: Stage) -> str:
        values = {"hmac": stage.token(label).hmac, field: period_ms}
        came = stage.ask(
            user, key, version,
            lambda answer: f"{int(answer.error_code)} {from_now(answer.expiry_timestamp)}", **values,
        )  # fmt: skip
        stage.settle()
        return came

    return step


def renew(user: str = "ann", label: str = "a", period_ms: int = -1, version: int = 2) -> Step:
    return _timed(RENEW, "renew_period", user, label, period_ms, version)


def expire(user: str = "ann", label: str = "a", period_ms: int = -1, version: int = 2) -> Step:
    return _timed(EXPIRE, "expiry_time_period", user, label, period_ms, version)


def describe(user: str = "ann", *owners: str, version: int = 3, empty: bool = False) -> Step:
    """DescribeDelegationToken: of these owners, of all without any, or of an empty list."""
    asked = [{"principal_type": "User", "principal_name": name} for name in owners]

    def step(stage: Stage) -> str:
        def show(answer: Any) -> str:
            lines = []
            for each in answer.tokens:
                label = stage.label(each.token_id)
                if label is None:
                    continue  # of another sequence
                renewers = [f"{r.principal_type}:{r.principal_name}" for r in each.renewers]
                requester = getattr(each, "token_requester_principal_name", "")
                is_hmac = each.hmac == stage.token(label).hmac
                lines.append(
                    f"{label} {each.principal_name} {requester} {renewers} {is_hmac} "
                    f"{from_now(each.expiry_timestamp)}"
                )
            return f"{int(answer.error_code)} {sorted(lines)}"

        return stage.ask(user, DESCRIBE, version, show, owners=asked if asked or empty else None)

    return step


def rule(kind: int, name: str, operation: int, **fields: Any) -> Step:
    """A rule for ann, or for `who`; of a `token` by its label."""

    def step(stage: Stage) -> str:
        token = stage.tokens.get(name)
        creation = {
            "resource_type": kind, "resource_name": name if token is None else token.token_id,
            "resource_pattern_type": fields.get("pattern", LITERAL),
            "principal": f"User:{fields.get('who', 'ann')}", "host": "*", "operation": operation,
            "permission_type": fields.get("permission", ALLOW),
        }  # fmt: skip
        answer = stage.admin.call(CREATE_ACLS, 3, creations=[creation])
        stage.settle()
        return str([int(result.error_code) for result in answer.results])

    return step


def log_in(label: str = "a", mechanism: str = SHA_512, **parts: str) -> Step:
    """A login by a token on a connection of its own; `password` (a label's), `user`, `extensions`."""

    def step(stage: Stage) -> str:
        stage.hang_up()
        stage.player = Player(stage.port)
        return _logged_in(stage, stage.player, label, mechanism, parts)

    return step


def log_in_again(label: str = "a", mechanism: str = SHA_512, **parts: str) -> Step:
    """A login on the connection of the last one."""

    def step(stage: Stage) -> str:
        assert stage.player is not None
        return _logged_in(stage, stage.player, label, mechanism, parts)

    return step


def _logged_in(
    stage: Stage, player: Player, label: str, mechanism: str, parts: dict[str, str]
) -> str:
    token = stage.token(label)
    word = stage.token(parts["password"]).password if "password" in parts else token.password
    extensions = parts.get("extensions", TOKEN_AUTH)
    steps = (
        handshake(mechanism),
        scram_first(parts.get("user", token.token_id), extensions=extensions),
        scram_last(word),
    )
    came = []
    for each in steps:
        came.append(each(player))
        if came[-1] == "closed":
            break
    return _rounded(came[-1])


def _rounded(came: str) -> str:
    """With the time of a session in whole hundreds of seconds."""

    def round_time(found: re.Match[str]) -> str:
        days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
        total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return f"{hundreds(total)} s"

    return re.sub(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)", round_time, came)


def sees_topic(user: str = "token") -> Step:
    """Metadata of a topic: its code says whose rules count."""
    return lambda stage: stage.ask(
        user, 3, 8, lambda answer: str([int(each.error_code) for each in answer.topics]),
        topics=[{"name": "t"}],
    )  # fmt: skip


def wait(seconds: float) -> Step:
    def step(_stage: Stage) -> str:
        time.sleep(seconds)
        return "waited"

    return step
