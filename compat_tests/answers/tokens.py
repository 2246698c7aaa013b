"""Delegation tokens as raw sequences of requests and logins, and what comes of each: `python -m
compat_tests.answers.tokens` plays them to kbroker and to Apache Kafka 3.9.2 and 4.3.1, and prints
what differs without a reason; `--record` writes down what Apache Kafka answers.

In each sequence users make tokens, renew, end and describe them, log in by them, and try what they
may not; an administrator makes and removes rules. Times are shown as the time from now.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compat_tests.answers.authorized import LOGINS_AND_RIGHTS, asked_of_each, kbroker
from compat_tests.answers.logins import LISTENER, MODULE, unexplained
from compat_tests.answers.logins_different import Different
from compat_tests.answers.rules import (
    DENY,
    PREFIXED,
    TOKEN,
    TOPIC,
    USER,
)
from compat_tests.answers.token_steps import (
    PASSWORDS,
    SHA_256,
    SHA_512,
    Stage,
    Step,
    create,
    describe,
    expire,
    log_in,
    log_in_again,
    renew,
    rule,
    sees_topic,
    wait,
)

RECORDED = Path(__file__).with_name("tokens.json")
DESCRIBES, CREATES_TOKENS, DESCRIBES_TOKENS = 8, 13, 14
SECRET = "the secret of all brokers"
WITH_TOKENS = {
    **LOGINS_AND_RIGHTS,
    "delegation.token.secret.key": SECRET,
    f"{LISTENER}plain.sasl.jaas.config": (
        f"{MODULE}.plain.PlainLoginModule required"
        + "".join(f' user_{name}="{password}"' for name, password in PASSWORDS.items())
        + ";"
    ),
}
LONG_MS = 8 * 10**16


class Sequence(NamedTuple):
    name: str
    steps: tuple[Step, ...]


BOB = (("User", "bob"),)


def sequences() -> Iterator[Sequence]:
    """Yield every sequence, each with a name of its own."""
    for making in (_creations, _owners, _changes, _views, _logins, _of_tokens):
        for name, steps in making().items():
            yield Sequence(name, steps)


def _creations() -> dict[str, tuple[Step, ...]]:
    found: dict[str, tuple[Step, ...]] = {
        f"create {version}": (create(version=version), describe(version=version))
        for version in (1, 2, 3)
    }
    for name, renewers in {
        "one": BOB, "two": (*BOB, ("User", "zoe")), "twice": BOB * 2, "self": (("User", "ann"),),
        "a group": (("Group", "bob"),), "no type": (("", "bob"),), "no name": (("User", ""),),
        "a user and a group": (*BOB, ("Group", "zoe")), "lower case": (("user", "bob"),),
        "odd signs": (("User", "CN=b, O=é:%"),), "anonymous": (("User", "ANONYMOUS"),),
    }.items():  # fmt: skip
        found[f"renewers {name}"] = (create(renewers=renewers), describe())
    for longest_ms in (0, 1, -5, 500_000, 100_000_000, 604_800_000, 604_800_001, LONG_MS):
        found[f"lifetime {longest_ms}"] = (create(longest_ms=longest_ms), describe())
    for key, step in {
        "create": create("nobody"), "renew": renew("nobody"), "expire": expire("nobody"),
        "describe": describe("nobody"), "describe none": describe("nobody", empty=True),
    }.items():  # fmt: skip
        found[f"nobody: {key}"] = (create(), step)
    return found


def _owners() -> dict[str, tuple[Step, ...]]:
    may = rule(USER, "User:bob", CREATES_TOKENS)
    return {
        "owner self": (create(owner="ann"), describe()),
        "owner other": (create(owner="bob"),),
        "owner other, with the right": (may, create(owner="bob"), describe(), describe("bob")),
        "owner other, right by prefix": (
            rule(USER, "User:b", CREATES_TOKENS, pattern=PREFIXED), create(owner="bob"),
        ),
        "owner other, right to all": (rule(USER, "*", CREATES_TOKENS), create(owner="bob")),
        "owner other, all rights": (rule(USER, "User:bob", 2), create(owner="bob")),
        "owner other, right to the bare name": (
            rule(USER, "bob", CREATES_TOKENS), create(owner="bob"),
        ),
        "owner other, right to describe": (
            rule(USER, "User:bob", DESCRIBES_TOKENS), create(owner="bob"),
        ),
        "owner other, denied": (
            rule(USER, "*", CREATES_TOKENS),
            rule(USER, "User:bob", CREATES_TOKENS, permission=DENY), create(owner="bob"),
        ),
        "owner self, denied": (
            rule(USER, "User:ann", CREATES_TOKENS, permission=DENY), create(owner="ann"), create(),
        ),
        "owner of no name": (create(owner="", kind="User"), describe()),
        "owner of no name, odd type": (create(owner="", kind="Group"),),
        "owner of no type": (may, create(owner="bob", kind=None), describe()),
        "owner of empty type": (create(owner="bob", kind=""), describe()),
        "owner a group": (create(owner="ann", kind="Group"),),
        "owner a group, with the right": (
            rule(USER, "Group:bob", CREATES_TOKENS), create(owner="bob", kind="Group"), describe(),
            log_in(),
        ),
        "owner other and a renewer of no kind": (create(owner="bob", renewers=(("x", "y"),)),),
        "requester renews": (may, create(owner="bob"), renew(), expire(), renew("bob", "a", 500_000)),
        "requester sees": (may, create(owner="bob"), describe("ann", "ann"), describe("ann", "bob")),
        "owner of another logs in": (
            may, rule(TOPIC, "t", DESCRIBES, who="bob"), create(owner="bob"), log_in(), sees_topic(),
            sees_topic("ann"),
        ),
    }  # fmt: skip


def _changes() -> dict[str, tuple[Step, ...]]:
    made = create(renewers=BOB)
    found: dict[str, tuple[Step, ...]] = {}
    for period_ms in (-1, 0, 500_000, -7, 90_000_000, 604_800_001, LONG_MS):
        found[f"renew {period_ms}"] = (made, renew(period_ms=period_ms), describe())
        found[f"expire {period_ms}"] = (made, expire(period_ms=period_ms), wait(0.05), describe())
    for version in (1, 2):
        found[f"renew version {version}"] = (
            made,
            renew(version=version),
            renew("bob", version=version),
        )
        found[f"expire version {version}"] = (made, expire("bob", "a", 500_000, version), expire())
    for user in ("bob", "zoe"):
        found[f"changed by {user}"] = (
            made,
            renew(user, "a", 900_000),
            expire(user, "a", 700_000),
            expire(user),
        )
    return found | {
        "with all rights of a stranger": (
            rule(USER, "*", 2, who="zoe"), rule(TOKEN, "*", 2, who="zoe"), made, renew("zoe"),
            expire("zoe"),
        ),
        "unknown": (renew(label="x"), expire(label="x"), renew(label=""), expire(label="")),
        "expired, renewed": (made, expire(period_ms=0), wait(0.05), renew(), expire("bob", "a", 500_000)),
        "expired, renewed by a stranger": (made, expire(period_ms=0), wait(0.05), renew("zoe")),
        "expired, ended": (made, expire(period_ms=0), wait(0.05), expire(), expire()),
        "ended, renewed": (made, expire(), renew(), expire(period_ms=5), describe()),
        "of two, one ended": (made, create(label="b"), expire(), describe(), renew(label="b")),
        "renewed beyond its end": (create(longest_ms=2_000_000), renew(period_ms=9_000_000), describe()),
        "brought forward, put off": (made, expire(period_ms=300_000), renew(period_ms=5_000_000)),
    }  # fmt: skip


def _views() -> dict[str, tuple[Step, ...]]:
    both = (create(renewers=BOB), create("bob", "b"))
    may = rule(TOKEN, "a", DESCRIBES, who="zoe")
    return {
        "see all": (*both, describe(), describe("bob"), describe("zoe")),
        "see none": (*both, describe(empty=True)),
        "see by owner": (*both, describe("ann", "ann"), describe("ann", "bob"), describe("bob", "ann")),
        "see by two owners": (*both, describe("bob", "ann", "bob"), describe("bob", "zoe")),
        "see by an owner who is nobody": (*both, describe("ann", "x")),
        "see in version 1": (*both, describe("bob", version=1), describe("bob", "ann", version=2)),
        "see by a rule of the token": (*both, may, describe("zoe"), describe("zoe", "bob")),
        "see by a rule of all tokens": (*both, rule(TOKEN, "*", DESCRIBES, who="zoe"), describe("zoe")),
        "see by a rule of the user": (
            *both, rule(USER, "User:ann", DESCRIBES_TOKENS, who="zoe"), describe("zoe"),
        ),
        "see by a rule of all users": (
            *both, rule(USER, "*", DESCRIBES_TOKENS, who="zoe"), describe("zoe", "bob"),
        ),
        "see by a wrong right": (*both, rule(USER, "*", CREATES_TOKENS, who="zoe"), describe("zoe")),
        "see though denied": (
            *both, rule(USER, "User:ann", DESCRIBES_TOKENS, permission=DENY),
            rule(TOKEN, "*", DESCRIBES, permission=DENY), describe(),
        ),
        "denied the token, allowed the user": (
            *both, rule(TOKEN, "a", DESCRIBES, who="zoe", permission=DENY),
            rule(USER, "*", DESCRIBES_TOKENS, who="zoe"), describe("zoe"),
        ),
    }  # fmt: skip


def _logins() -> dict[str, tuple[Step, ...]]:
    found: dict[str, tuple[Step, ...]] = {}
    for mechanism in (SHA_256, SHA_512):
        found[f"{mechanism} right"] = (create(), log_in(mechanism=mechanism), sees_topic())
        found[f"{mechanism} of another"] = (
            create(), create(label="b"), log_in(mechanism=mechanism, password="b"),
        )  # fmt: skip
    for extensions in (",tokenauth=TRUE", ",tokenauth=false", "", ",tokenauth=", ",tokenauth=yes",
                       ",x=y,tokenauth=true", ",Tokenauth=true"):  # fmt: skip
        found[f"login with {extensions!r}"] = (
            create(),
            log_in(extensions=extensions),
            sees_topic(),
        )
    mine = rule(TOPIC, "t", DESCRIBES)
    return found | {
        "login unknown": (log_in("x"),),
        "login as its owner": (create(), log_in(user="ann")),
        "login by a renewer": (create(renewers=BOB), log_in(user="bob")),
        "login with the owner's rights": (mine, create(), log_in(), sees_topic()),
        "login to no more than the owner": (create(), log_in(), sees_topic(), sees_topic("ann")),
        "login for a short time": (create(longest_ms=3_000_000), log_in()),
        "login after a renewal": (create(), renew(period_ms=4_000_000), log_in()),
        "login after it was ended": (create(), expire(), log_in()),
        "login after it has expired": (create(), expire(period_ms=0), wait(0.05), log_in(), sees_topic()),
        "session outlives a token that is ended": (mine, create(), log_in(), expire(), sees_topic()),
        "login again": (mine, create(), log_in(), log_in_again(), sees_topic()),
        "login again after a renewal": (
            create(), log_in(), renew(period_ms=5_000_000), log_in_again(),
        ),
        "login again after it was ended": (create(), log_in(), expire(), log_in_again()),
        "login again by another of the owner": (
            create(), create(label="b", longest_ms=6_000_000), log_in(), log_in_again("b"),
        ),
        "login again by that of another owner": (
            create(), create("bob", "b"), log_in(), log_in_again("b"),
        ),
    }  # fmt: skip


def _of_tokens() -> dict[str, tuple[Step, ...]]:
    begun = (create(renewers=BOB), log_in())
    return {
        f"by a token: {name}": (*begun, step)
        for name, step in {
            "create": create("token", "b"),
            "create for another": create("token", "b", owner="bob"),
            "create with a wrong renewer": create("token", "b", renewers=(("Group", "x"),)),
            "renew": renew("token"), "renew unknown": renew("token", "x"),
            "expire": expire("token"), "describe": describe("token"),
            "describe none": describe("token", empty=True), "topic": sees_topic(),
        }.items()
    }  # fmt: skip


def play(stage: Stage) -> dict[str, list[str]]:
    """Play all sequences; returns what came of each step."""
    found = {}
    for sequence in sequences():
        stage.begin()
        found[sequence.name] = [step(stage) for step in sequence.steps]
    return found


_ENUMERATION = "who does not exist is asked for a proof, too: nobody learns which tokens there are"
_REFUSED = (
    "58 Authentication failed during {} due to invalid credentials with SASL mechanism "
    "SCRAM-SHA-512, b'', 0 s"
)

DIFFERENT = {
    "owner of no type": Different(
        ["65 :bob User:ann -1, -1, -1, 0, 0", "0 []"], "Apache Kafka fails at it, and answers -1"
    ),
    "owner a group, with the right": Different(
        ["closed"], "the holder would be User:bob, who has made no token"
    ),
    **dict.fromkeys(
        (
            "login unknown", "login as its owner", "login by a renewer", "login after it was ended",
        ),
        Different([_REFUSED.format("authentication")], _ENUMERATION),
    ),
    **dict.fromkeys(
        [f"login with {extensions!r}" for extensions in (
            ",tokenauth=false", "", ",tokenauth=yes", ",Tokenauth=true",
        )],
        Different([_REFUSED.format("authentication"), "closed"], _ENUMERATION),
    ),
    "login after it has expired": Different(
        [_REFUSED.format("authentication"), "closed"],
        "the session of 3.9.2 has ended before its first request, that of 4.3.1 goes on",
    ),
    "login again after it was ended": Different(
        [_REFUSED.format("re-authentication")], "the client learns why, as at its first login"
    ),
}  # fmt: skip


def main() -> None:
    """Play them to all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    record = parser.parse_args().record
    theirs = asked_of_each(lambda broker: play(Stage(broker)), WITH_TOKENS)
    if record:
        text = json.dumps(theirs, ensure_ascii=False)
        RECORDED.write_text(re.sub(r'(\]|\{)(, |)"(?=[^"]+": [\[{])', r'\1\2\n"', text) + "\n")
    with kbroker(WITH_TOKENS) as broker:
        ours = play(Stage(broker))
    lines = unexplained(ours, theirs, DIFFERENT)
    apart = sum(theirs["3.9.2"][name] != theirs["4.3.1"][name] for name in ours)
    print(f"{len(ours)} sequences, {len(lines)} unexplained; {apart} differ between theirs")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
