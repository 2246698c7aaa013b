"""Whether the time of a refusal tells who exists: wrong passwords and unknown users in turn, the
medians of both and their ratio: `python -m benchmarks.login_refusals --tries 2000`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from random import random
from statistics import median

from compat_tests.answers.logins import (
    HASHES,
    Player,
    Step,
    handshake,
    kbroker,
    plain,
    scram_first,
    scram_last,
    token,
)

KNOWN, UNKNOWN = "ann", "zoe"


def plain_tries(user: str) -> tuple[Step, ...]:
    """One message, of a user with a wrong password."""
    return (token(plain(user, "wrong")),)


def scram_tries(user: str) -> tuple[Step, ...]:
    """Both messages, of a user with a wrong password."""
    return scram_first(user), scram_last("wrong")


WAYS: dict[str, Callable[[str], tuple[Step, ...]]] = {
    "PLAIN": plain_tries,
    **dict.fromkeys(HASHES, scram_tries),
}


def seconds_of(port: int, mechanism: str, user: str) -> list[float]:
    """How long each message of a try takes to its answer."""
    player = Player(port)
    handshake(mechanism)(player)
    taken = []
    for step in WAYS[mechanism](user):
        began = time.perf_counter()
        step(player)
        taken.append(time.perf_counter() - began)
    player.connection.close()
    return taken


def main() -> None:
    """Measure, and print a row for each message."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=2_000)
    tries = parser.parse_args().tries
    with kbroker() as port:
        for mechanism, steps in WAYS.items():
            times: dict[str, list[list[float]]] = {KNOWN: [], UNKNOWN: []}
            for _ in range(tries):
                for user in sorted(times, key=lambda _: random()):
                    times[user].append(seconds_of(port, mechanism, user))
            for number in range(len(steps(KNOWN))):
                known, unknown = (
                    1e6 * median(each[number] for each in taken) for taken in times.values()
                )
                print(
                    f"{mechanism} message {number + 1}: wrong password {known:.0f} µs, unknown "
                    f"user {unknown:.0f} µs, ratio {unknown / known:.3f}"
                )


if __name__ == "__main__":
    main()
