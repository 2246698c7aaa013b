"""Consumer groups of KIP-848 as raw sequences of their requests, and what comes of each: `python -m
compat_tests.answers.consumer_groups` plays them to kbroker and to Apache Kafka 4.3.1, and prints what
differs without a reason; `--record` writes down what Apache Kafka answers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from compat_tests.answers.consumer_group_changes import changes
from compat_tests.answers.consumer_group_sequences import sequences
from compat_tests.answers.consumer_group_steps import play
from compat_tests.answers.group_settings import kbroker
from compat_tests.answers.logins import unexplained
from compat_tests.answers.logins_different import Different
from compat_tests.running import apache_kafka

RECORDED = Path(__file__).with_name("consumer_groups.json")
SETTLES_S = 0.4  # the time in which a broker of KRaft hears of what its controller did
SETTINGS = {"group.consumer.assignment.interval.ms": "0"}  # targets come at once
_POLICIES = ("disabled", "upgrade", "downgrade")  # of changes of the protocol, beside the default

_WAITS = "back: a classic one waits for partitions"
DIFFERENT: Mapping[str, Different] = dict.fromkeys(
    (_WAITS, f"{_WAITS} (downgrade)"),
    Different(
        [
            "0 a e2 5000 t6*6",
            "79 g-1 None None  <d> [] False; 0 g3 consumer range  <d> [] False",
            "0 consumer range 10 bytes",
            "0",
            "0 g3 consumer range  <c> [] False",
            "0 ['consumer PreparingRebalance classic']",
            "27 None None 0 bytes",
            "27",
            "27",
        ],
        "or nobody reads what it waits for: it has fetched its assignment in this generation",
    ),
)


def ours(only: str = "") -> dict[str, list[str]]:
    """Return what comes at kbroker of sequences with this in their names."""

    def start(settings: Mapping[str, str]) -> AbstractContextManager[str]:
        return kbroker(*overriding(settings))

    return _played(start, 0, only)


def overriding(settings: Mapping[str, str]) -> list[str]:
    """Return the options of a start with these settings."""
    return [f"--override={name}={value}" for name, value in settings.items()]


def _theirs() -> dict[str, list[str]]:
    """Return what comes of all at Apache Kafka 4.3.1."""
    return _played(apache, SETTLES_S)


@contextmanager
def apache(settings: Mapping[str, str] = SETTINGS) -> Iterator[str]:
    """Apache Kafka 4.3.1."""
    with apache_kafka.broker(apache_kafka.NEWEST, settings) as (bootstrap, _):
        yield bootstrap


def _played(
    start: Callable[[Mapping[str, str]], AbstractContextManager[str]],
    settles_s: float,
    only: str = "",
) -> dict[str, list[str]]:
    """Play sequences, those of each policy to a broker of its own."""
    by_policy = {"": list(sequences()), **{each: list(changes(each)) for each in _POLICIES}}
    found: dict[str, list[str]] = {}
    for policy, played in by_policy.items():
        wanted = [(name, steps) for name, steps in played if only in name]
        if not wanted:
            continue
        more = {"group.consumer.migration.policy": policy} if policy else {}
        with start({**SETTINGS, **more}) as bootstrap:
            found |= play(bootstrap, wanted, settles_s)
    return found


def main() -> None:
    """Play them to both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", default="", help="those with this in their names")
    options = parser.parse_args()
    if options.record:
        recorded = json.dumps({"4.3.1": _theirs()}, ensure_ascii=False, indent=0)
        RECORDED.write_text(recorded + "\n")
    found = ours(options.only)
    different = {name: each for name, each in DIFFERENT.items() if options.only in name}
    lines = unexplained(found, json.loads(RECORDED.read_text()), different)
    print(f"{len(found)} sequences, {len(lines)} unexplained")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
