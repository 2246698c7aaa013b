"""The examples of rules on Apache Kafka, whose brokers are killed with -9 as the jobs are: each topic
holds exactly what the generator's truth says.

    python -m compat_tests.pipeline.rules_rounds logs-errors earnings --version 3.9.2 --restarts 3

Without names all examples run, one after the other. `python -m examples.rules.run` is the same on
kbroker.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from examples.rules import run as rules_run


class KillableApache:
    """Fulfils RunningBroker: a broker of Apache Kafka in KRaft mode."""

    def __init__(self, data: Path, version: str) -> None:
        self._broker = ApacheBroker(data, version=version)
        self._broker.start()

    @property
    def address(self) -> str:
        """Where it serves, also after it was killed and started."""
        return self._broker.bootstrap

    def start(self) -> None:
        """Start it over what it has left."""
        self._broker.start()

    def kill(self) -> None:
        """SIGKILL."""
        self._broker.stop(signal.SIGKILL)


def main() -> int:
    """Run the examples; the exit code."""
    known = sorted(each.parent.name for each in rules_run.HERE.glob("*/rules.toml"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=", ".join(known))
    parser.add_argument("--version", choices=(ZOOKEEPER_LINE, NEWEST), default=NEWEST)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=3_000)
    parser.add_argument("--restarts", type=int, default=2, help="of job and broker, in turn")
    given = parser.parse_args()
    wrong = []
    for example in given.examples or known:
        print(f"{example} on Apache Kafka {given.version}", flush=True)
        code = rules_run.run(
            example,
            given.seed,
            given.events,
            given.restarts,
            started=lambda data: KillableApache(data, given.version),
        )
        wrong += [example] if code else []
    print(f"not as the truth says: {wrong}" if wrong else "all as the truth says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
