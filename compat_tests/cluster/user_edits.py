"""Users that are edited at random: each edit goes to a broker of kbroker for one user, and to one of
Apache Kafka 3.9.2 for its twin, and both have the same bytes in the tree afterwards. Those that can log
in do so at every broker. Apache Kafka edits users as controller only.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterable
from functools import partial

from compat_tests.answers.logins import HASHES, Player, handshake, scram_first, scram_last
from compat_tests.cluster.inside import Inside
from compat_tests.cluster.processes import Cluster
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import ALTER_CLIENT_QUOTAS, ALTER_USER_SCRAM_CREDENTIALS

PASSWORDS = ("first-word", "second-word")
_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage",
           "controller_mutation_rate")  # fmt: skip


class UserEdits:
    """Twins with the credentials that they should have."""

    def __init__(self, cluster: Cluster, inside: Inside, draw: random.Random) -> None:
        self._cluster, self._inside, self._draw = cluster, inside, draw
        self._context = inside.context()
        self._passwords: dict[str, dict[str, str]] = {}  # of a user, by mechanism
        self.refused_for_s: list[float] = []  # somebody with a new password

    def run(self, edits: int, users: int = 5) -> None:
        """Make this many edits of so many pairs of users."""
        for _ in range(edits):
            user = f"user-{self._draw.randrange(users)}"
            known = self._passwords.setdefault(user, {})
            kind = self._draw.random()
            if kind < 0.2:
                self._set_quota(user)
            elif kind < 0.4 and known:
                self._delete(user, self._draw.choice(sorted(known)))
            else:
                self._new_password(user)
            twins = [self._cluster.tree.get(f"/config/users/{name}") for name in _twins(user)]
            assert twins[0] == twins[1], (user, twins)

    def await_login(self, user: str, mechanism: str, password: str) -> None:
        """Wait until every broker lets somebody in, and note how long after the write of the node
        the last login began that a broker refused.
        """
        node = self._cluster.tree.node(f"/config/users/{user}")
        assert node is not None
        written_s = node[1].mtime / 1000
        refused = self._await(user, mechanism, password, is_in=True)
        self.refused_for_s.append(max((0.0, *(begun_s - written_s for begun_s in refused))))

    def _await(self, user: str, mechanism: str, password: str, *, is_in: bool) -> list[float]:
        """Log in at one broker after the other until each answers so; when the logins began that
        were answered otherwise, in seconds of the epoch.
        """
        others = []

        def answers(number: int) -> bool:
            begun_s = time.time()
            if self._is_let_in(number, user, mechanism, password) == is_in:
                return True
            others.append(begun_s)
            return False

        for number in self._cluster.ids:
            until(partial(answers, number), f"{user} by {mechanism} at broker {number}: {is_in}")
        return others

    def set_password(
        self, brokers: Iterable[tuple[str, int]], mechanism: str, password: str
    ) -> None:
        """Give each user a credential through that broker, all of them the same."""
        salt, iterations = self._draw.randbytes(12), self._draw.choice((4096, 8192))
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
        given = {"iterations": iterations, "salt": salt, "salted_password": salted}
        for user, number in brokers:
            self._alter(number, deletions=[], upsertions=[_named(user, mechanism) | given])

    def _new_password(self, user: str) -> None:
        mechanism, password = self._draw.choice(list(HASHES)), self._draw.choice(PASSWORDS)
        self.set_password(self._brokers(user), mechanism, password)
        self._passwords[user][mechanism] = password
        self.await_login(self._draw.choice(_twins(user)), mechanism, password)

    def _delete(self, user: str, mechanism: str) -> None:
        for twin, number in self._brokers(user):
            self._alter(number, deletions=[_named(twin, mechanism)], upsertions=[])
        password = self._passwords[user].pop(mechanism)
        self._await(self._draw.choice(_twins(user)), mechanism, password, is_in=False)

    def _set_quota(self, user: str) -> None:
        """Which stands in the same node."""
        change = {
            "key": self._draw.choice(_QUOTAS),
            "value": float(self._draw.randrange(10**6) + 1),
        }
        change["remove"] = self._draw.random() < 0.3
        for twin, number in self._brokers(user):
            entry = {"entity": [{"entity_type": "user", "entity_name": twin}], "ops": [change]}
            with self._cluster.wire(number) as wire:
                answer = wire.call(ALTER_CLIENT_QUOTAS, 0, entries=[entry], validate_only=False)
            assert [int(each.error_code) for each in answer.entries] == [0], answer

    def _alter(self, number: int, **changes: object) -> None:
        with self._cluster.wire(number) as wire:
            answer = wire.call(ALTER_USER_SCRAM_CREDENTIALS, 0, **changes)
        assert [int(each.error_code) for each in answer.results] == [0], answer

    def _brokers(self, user: str) -> list[tuple[str, int]]:
        """Of each twin, the broker that edits it; the first one is edited by brokers of both kinds."""
        apache, kinds = self._cluster.controller_id(), self._cluster.kinds
        ours = self._draw.choice([n for n in self._cluster.ids if kinds[n] == "kbroker"])
        first = apache if self._draw.random() < 0.3 else ours
        return list(zip(_twins(user), (first, apache), strict=True))

    def _is_let_in(self, number: int, user: str, mechanism: str, password: str) -> bool:
        player = Player(int(self._inside.address(number).rpartition(":")[2]))
        try:
            player.connection.socket = self._context.wrap_socket(
                player.connection.socket, server_hostname="localhost"
            )
            for step in (handshake(mechanism), scram_first(user)):
                step(player)
            return "signature right" in scram_last(password)(player)
        finally:
            player.connection.close()


def _twins(user: str) -> tuple[str, str]:
    return f"{user}-a", f"{user}-b"


def _named(user: str, mechanism: str) -> dict[str, object]:
    return {"name": user, "mechanism": _MECHANISMS[mechanism]}
