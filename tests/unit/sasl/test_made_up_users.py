"""Names that nobody has look like users of the cluster, whoever its users are."""

from __future__ import annotations

from kbroker.sasl.made_up_users import MadeUpUsers
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential

KAFKAS_SALT = b"1l2a5yrb7nwh0lqe8bymd6xqa9"
NAMES = [f"name {number}" for number in range(300)]
Look = tuple[bool, int, int]


def credential(salt: bytes, iterations: int, mechanism: str = "SCRAM-SHA-256") -> ScramCredential:
    key = bytes(SCRAM_MECHANISMS[mechanism].key_bytes)
    return ScramCredential(salt, key, key, iterations)


def look(found: ScramCredential) -> Look:
    is_kafkas = found.salt.isalnum() and found.salt.islower() and len(found.salt) in (24, 25, 26)
    return is_kafkas, 0 if is_kafkas else len(found.salt), found.iterations


def looks(users: MadeUpUsers, name: str) -> tuple[Look, ...]:
    return tuple(
        look(users.credential(b"key", mechanism, name)) for mechanism in SCRAM_MECHANISMS.values()
    )


def test_without_users_they_look_like_those_of_both_kinds_of_tools() -> None:
    users = MadeUpUsers()

    found = [looks(users, name) for name in NAMES]

    assert set(found) == {((True, 0, 4096),) * 2, ((False, 24, 8192),) * 2}
    assert all(120 < found.count(each) < 180 for each in set(found))


def test_they_look_like_the_users_of_the_cluster_and_seldom_change() -> None:
    users = MadeUpUsers()
    users.put("ann", {"SCRAM-SHA-512": credential(KAFKAS_SALT, 10_000, "SCRAM-SHA-512")})
    assert {looks(users, name) for name in [*NAMES, "ann"]} == {((True, 0, 10_000),) * 2}

    before = {name: looks(users, name) for name in NAMES}
    both = {"SCRAM-SHA-256": credential(b"x" * 64, 4096), "SCRAM-SHA-512": credential(b"", 8192)}
    users.put("bob", both)
    of_bob = (False, 64, 4096), (False, 0, 8192)
    after = {name: looks(users, name) for name in NAMES}
    assert looks(users, "bob") == of_bob
    assert {now for name, now in after.items() if now != before[name]} == {of_bob}
    assert 120 < list(after.values()).count(of_bob) < 180

    users.put("eve", both)
    users.put("bob", {})
    assert {name: looks(users, name) for name in NAMES} == after
    users.put("eve", {"SCRAM-SHA-256": credential(b"weak", 4095)})
    assert {name: looks(users, name) for name in NAMES} == before


def test_salts_stay_and_differ_by_name_mechanism_and_secret() -> None:
    sha_256, sha_512 = SCRAM_MECHANISMS.values()
    asked = [(b"a", sha_256, "x"), (b"a", sha_256, "y"), (b"a", sha_512, "x"), (b"b", sha_256, "x")]
    users = MadeUpUsers()

    salts = [users.credential(*each).salt for each in asked]

    assert len(set(salts)) == len(asked)
    assert salts == [MadeUpUsers().credential(*each).salt for each in asked]
