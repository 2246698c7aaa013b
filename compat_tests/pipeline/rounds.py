"""The archive job, killed with -9 again and again and resumed: in the end every record is in the
archive exactly once, byte for byte.

    python -m compat_tests.pipeline.rounds --records 5000000 --kills 20 --source kafka

Sources are a cluster (`kafka`) or the directory of a broker (`logdir`), which runs, or is stopped
with `--stopped`; targets are kbroker and Apache Kafka (`--target kafka`). With `--live` the second
half of the records is written while the job is killed.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.conftest import BrokerProcess
from compat_tests.pipeline.archive_check import check_archive
from compat_tests.pipeline.archive_process import ArchiveCommand, ArchiveProcess, random_kill
from compat_tests.pipeline.hunt_home import hunt_home
from compat_tests.pipeline.plan_writer import PlanWriter, check_end_offsets, create_topics
from compat_tests.pipeline.planned_records import TOPICS, RecordPlan
from compat_tests.pipeline.published_archive import read_published
from compat_tests.running import apache_kafka

_CHECKPOINT_MS = 250  # how often brokers note the high watermarks that a reader of files goes by
_RUN_TIMEOUT_S = 3_600
_END_S = 30  # until the rest of a killed run has ended: a disk can make one wait
_BATCHES_PER_KILL = 3


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """What a run of this module does."""

    records: int
    kills: int
    source: str  # kafka or logdir
    target: str  # kbroker or kafka
    seed: int
    stopped: bool = False
    live: bool = False
    apache_version: str = apache_kafka.NEWEST

    @property
    def batch_records(self) -> int:
        """So that there is something to do after every kill."""
        return max(1_000, self.records // (self.kills * _BATCHES_PER_KILL + 3))


def run(rounds: Rounds, home: Path) -> None:
    """Write, archive, kill and check; AssertionError with the first fault."""
    plan = RecordPlan(rounds.seed, rounds.records)
    clock = _Clock()
    with ExitStack() as stack:
        bootstrap = stack.enter_context(_broker(rounds, home / "broker"))
        create_topics(bootstrap)
        writer = PlanWriter(bootstrap, plan)
        writer.write(0.5 if rounds.live else 1.0)
        clock.lap("written")
        if rounds.stopped:
            stack.close()
        command = ArchiveCommand(
            _source(rounds, bootstrap, home / "broker" / "data"),
            TOPICS, home, rounds.batch_records,
        )  # fmt: skip
        if rounds.live:
            writer.write_slowly(rounds.kills * 8.0)
        _kill_again_and_again(rounds, command)
        clock.lap(f"{rounds.kills} kills")
        writer.finish()
        if not rounds.stopped:
            check_end_offsets(bootstrap, plan)
            time.sleep(3 * _CHECKPOINT_MS / 1000)
        _run_to_the_end(command)
        clock.lap("the last run")
    archive = check_archive(command.archive, plan)
    clock.lap("checked")
    print(
        f"{rounds.records:,} records from {rounds.source} of {rounds.target}, "
        f"{rounds.kills} kills: each once, byte for byte, in {len(archive.files)} files "
        f"after {archive.steps} steps; {clock}"
    )


def _kill_again_and_again(rounds: Rounds, command: ArchiveCommand) -> None:
    draw = random.Random(rounds.seed)
    killed: ArchiveProcess | None = None
    for number in range(rounds.kills):
        process = command.start()  # at once: what is left of the one before may still run
        done = random_kill(process, command, draw)
        archive = read_published(command.archive)
        archived = sum(entry["rows"] for entry in archive.files.values())
        print(f"kill {number + 1}: {done}; {archived:,} records published", flush=True)
        _check_end(killed)
        killed = process
    _check_end(killed)


def _check_end(killed: ArchiveProcess | None) -> None:
    left = killed.leftovers(_END_S) if killed is not None else []
    assert not left, f"{left} went on without the driver"


def _run_to_the_end(command: ArchiveCommand) -> None:
    process = command.start()
    code = process.wait(_RUN_TIMEOUT_S)
    assert code == 0, f"the last run ended with {code}: {process.said()[-3000:]}"
    assert "Traceback" not in process.said(), process.said()[-3000:]


def _source(rounds: Rounds, bootstrap: str, data: Path) -> tuple[str, ...]:
    if rounds.source == "kafka":
        return ("--bootstrap", bootstrap)
    return ("--data", str(data))


@contextmanager
def _broker(rounds: Rounds, home: Path) -> Iterator[str]:
    """A running broker's address; its files are in `home`/data."""
    home.mkdir()
    settings = {"replica.high.watermark.checkpoint.interval.ms": str(_CHECKPOINT_MS)}
    if rounds.target == "kafka":
        settings["log.dirs"] = str(home / "data")
        with apache_kafka.broker(rounds.apache_version, settings) as (bootstrap, _):
            yield bootstrap
        return
    overrides = [f"{name}={value}" for name, value in settings.items()]
    options = [option for each in overrides for option in ("--override", each)]
    broker = BrokerProcess(home / "data", tuple(options))
    broker.start()
    try:
        yield broker.bootstrap
        assert "Traceback" not in broker.log_text(), broker.log_text()[-3000:]
    finally:
        broker.stop()


class _Clock:
    """How long each part took."""

    def __init__(self) -> None:
        self._laps: list[str] = []
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        """The part of that name is over."""
        now = time.monotonic()
        self._laps.append(f"{name} {now - self._last:.0f} s")
        self._last = now

    def __str__(self) -> str:
        return ", ".join(self._laps)


def main() -> None:
    """Parse the options and run; what was written stays where a fault was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--source", choices=("kafka", "logdir"), default="kafka")
    parser.add_argument("--target", choices=("kbroker", "kafka"), default="kbroker")
    parser.add_argument("--apache-version", default=apache_kafka.NEWEST)
    parser.add_argument("--stopped", action="store_true", help="logdir: of a broker that stopped")
    parser.add_argument("--live", action="store_true", help="write while the job is killed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.stopped and (options.live or options.source == "kafka"):
        parser.error("--stopped is for --source logdir, without --live")
    with hunt_home("pipeline-rounds") as home:
        run(Rounds(**vars(options)), home)


if __name__ == "__main__":
    main()
