"""Consumer groups of KIP-848 as raw sequences of their requests, and what comes of each: `python -m
compat_tests.answers.consumer_groups` plays them to kbroker and to Apache Kafka 4.3.1, and prints what
differs without a reason; `--record` writes down what Apache Kafka answers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from compat_tests.answers.consumer_group_sequences import sequences
from compat_tests.answers.consumer_group_steps import play
from compat_tests.answers.group_settings import kbroker
from compat_tests.answers.logins import unexplained
from compat_tests.answers.logins_different import Different
from compat_tests.running import apache_kafka

RECORDED = Path(__file__).with_name("consumer_groups.json")
SETTLES_S = 0.4  # the time in which a broker of KRaft hears of what its controller did
_SETTINGS = {"group.consumer.assignment.interval.ms": "0"}  # targets come at once
OPTIONS = tuple(f"--override={name}={value}" for name, value in _SETTINGS.items())

DIFFERENT: Mapping[str, Different] = {}


@contextmanager
def apache() -> Iterator[str]:
    """Apache Kafka 4.3.1."""
    with apache_kafka.broker(apache_kafka.NEWEST, _SETTINGS) as (bootstrap, _):
        yield bootstrap


def main() -> None:
    """Play them to both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", default="", help="those with this in their names")
    options = parser.parse_args()
    if options.record:
        with apache() as bootstrap:
            theirs = play(bootstrap, sequences(), SETTLES_S)
        RECORDED.write_text(json.dumps({"4.3.1": theirs}, ensure_ascii=False, indent=0) + "\n")
    wanted = [(name, steps) for name, steps in sequences() if options.only in name]
    with kbroker(*OPTIONS) as bootstrap:
        ours = play(bootstrap, wanted, 0)
    different = {name: each for name, each in DIFFERENT.items() if options.only in name}
    lines = unexplained(ours, json.loads(RECORDED.read_text()), different)
    print(f"{len(ours)} sequences, {len(lines)} unexplained")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
