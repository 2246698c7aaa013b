"""The brokers whose answers are recorded, and the recordings.

`python -m compat_tests.transactions.sides [--only WORD]` asks Apache Kafka 3.9.2 and 4.3.1 again
(the latter at both ends of its feature `transaction.version`) and writes `recorded/`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from compat_tests.running.shared_zookeeper import fresh_chroot
from compat_tests.running.waiting import until
from compat_tests.transactions.runner import run_all, warm_up
from compat_tests.transactions.script import (
    Answers,
    Sequence,
    all_sequences,
    read_answers,
    write_answers,
)
from compat_tests.wire.wire_client import API_VERSIONS, WireClient, code

RECORDED = Path(__file__).parent / "recorded"
OLD, NEW_AT_0, NEW_AT_2 = ZOOKEEPER_LINE, f"{NEWEST}-level-0", f"{NEWEST}-level-2"
SIDES = (OLD, NEW_AT_0, NEW_AT_2)
LEVELS = {OLD: 0, NEW_AT_0: 0, NEW_AT_2: 2}
FEATURE = "transaction.version"
SETTINGS = {
    "auto.create.topics.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
_PATIENT = {"zookeeper.session.timeout.ms": "30000", "broker.session.timeout.ms": "9000"}
# Apache Kafka answers Produce with the error of the version that came first of all those whose
# transactions it asks about together: sequences that run side by side would change each other's.
_AT_ONCE = 1
_UPDATE_FEATURES, _UPGRADE, _SAFE_DOWNGRADE = 57, 1, 2


def settings_of(sequence: Sequence) -> dict[str, str]:
    """Return the settings of a broker that plays a sequence."""
    return SETTINGS | dict(setting.split("=", 1) for setting in sequence.settings)


def by_settings(sequences: tuple[Sequence, ...]) -> dict[tuple[str, ...], list[Sequence]]:
    """Sequences that one broker can play."""
    found: dict[tuple[str, ...], list[Sequence]] = {}
    for sequence in sequences:
        found.setdefault(sequence.settings, []).append(sequence)
    return found


def recorded(side: str) -> dict[str, Answers]:
    """Read what that broker answered."""
    return read_answers((RECORDED / f"{side}.txt").read_text())


def level(bootstrap: str) -> int:
    """The level of `transaction.version` that a broker has."""
    features = _features(bootstrap).finalized_features
    return next((f.max_version_level for f in features if f.name == FEATURE), 0)


def _features(bootstrap: str) -> Any:
    client = WireClient(bootstrap)
    answer = client.call(API_VERSIONS, 4, client_software_name="sides", client_software_version="1")
    client.close()
    return answer


@contextmanager
def _broker(side: str, settings: dict[str, str]) -> Iterator[str]:
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sides-")))
        connect = fresh_chroot() if side == OLD else None
        broker = ApacheBroker(root / "data", connect, settings=settings | _PATIENT)
        broker.start()
        stack.callback(broker.stop)
        if side == NEW_AT_0:
            set_level(broker.bootstrap, 0)
        warm_up(broker.bootstrap)
        yield broker.bootstrap


def set_level(bootstrap: str, wanted: int) -> None:
    """Raise or lower `transaction.version`; returns when clients are told so."""
    client = WireClient(bootstrap)
    kind = _UPGRADE if wanted > level(bootstrap) else _SAFE_DOWNGRADE
    update = {"feature": FEATURE, "max_version_level": wanted, "upgrade_type": kind}
    answer = client.call(_UPDATE_FEATURES, 2, feature_updates=[update], timeout=10_000)
    assert code(answer.error_code, answer.error_message) == "0"
    client.close()
    until(lambda: level(bootstrap) == wanted, f"{FEATURE} is {wanted}")


def highest_level(bootstrap: str) -> int:
    """The highest level of `transaction.version` that a broker supports."""
    return max(
        (f.max_version for f in _features(bootstrap).supported_features if f.name == FEATURE),
        default=0,
    )


def main() -> None:
    """Record again; sequences that were not asked for keep their recording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a word of the title or the file")
    parser.add_argument("--side", choices=SIDES, action="append")
    options = parser.parse_args()
    everything = all_sequences()
    wanted = tuple(s for s in everything if options.only in s.title)
    for side in options.side or SIDES:
        found = recorded(side) if (RECORDED / f"{side}.txt").exists() else {}
        asked = tuple(s for s in wanted if s.level <= LEVELS[side])
        for sequences in by_settings(asked).values():
            with _broker(side, settings_of(sequences[0])) as bootstrap:
                found |= run_all(bootstrap, sequences, _AT_ONCE)
        kept = {
            s.title: found[s.title]
            for s in everything
            if s.title in found and s.level <= LEVELS[side]
        }
        (RECORDED / f"{side}.txt").write_text(write_answers(kept))
        print(f"{side}: {len(asked)} of {len(kept)} sequences recorded", flush=True)


if __name__ == "__main__":
    main()
