"""Restores, killed with -9 again and again at random moments and continued: in the end every record
is there exactly once, byte for byte, in topics behind each other and with a map, in a data
directory at the offset that it had.

    python -m compat_tests.pipeline.restore_rounds --records 200000 --kills 20 --into data

An archive is made once from the directory of a broker, whose logs have aborted transactions among
the records. A restore that reaches its end before the last kill is checked like the last one, and
the next one begins; what the last one made is archived once more, and that archive is checked, too.
With `--spark` the work is spread over workers of Spark. `--keep` moves the last data directory there.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from compat_tests.conftest import BrokerProcess
from compat_tests.pipeline.archive_check import check_archive
from compat_tests.pipeline.archive_process import ArchiveCommand, ArchiveProcess
from compat_tests.pipeline.hunt_home import hunt_home
from compat_tests.pipeline.plan_writer import PlanWriter, create_topics
from compat_tests.pipeline.planned_records import (
    TOPICS,
    EnvelopeHash,
    PlannedRecord,
    RecordPlan,
    planned_hash,
)

_RUN_TIMEOUT_S = 3_600
_END_S = 30  # until the rest of a killed run has ended
_RESTORE_S = 15  # about so long the writing takes, so that there is something to kill
_START_S = 20  # until a run writes, at the most
_BYTES_PER_RECORD = 200
_BATCH_RECORDS = 2_000_000  # of the archive, at the most
_ABORTED_PER_PARTITION = 8

Partition = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class RestoreRounds:
    """What a run of this module does."""

    records: int
    kills: int
    into: str  # topics or data
    seed: int
    spark: bool = False
    keep: Path | None = None

    @property
    def rate(self) -> str:
        """For --max-rate."""
        kilobytes = self.records * _BYTES_PER_RECORD // 1024 // _RESTORE_S
        return f"{max(kilobytes, 1)}kB"


def run(rounds: RestoreRounds, home: Path) -> None:
    """Write, archive, restore, kill and check; AssertionError with the first fault."""
    plan = plan_of(rounds.seed, rounds.records)
    archived = _archived(plan, home)
    draw = random.Random(rounds.seed)
    begun_s, killed, number = time.monotonic(), 0, 0
    while True:
        restore = _Restore(rounds, archived, home / f"restore-{number}")
        with restore.target():
            while killed < rounds.kills and restore.is_killed(draw):
                killed += 1
                print(f"kill {killed}: {restore.how_far()}", flush=True)
            restore.run_to_the_end()
            _check(restore, plan)
        if killed == rounds.kills:
            _check_once_more(restore, plan)
            if rounds.keep is not None:
                shutil.move(restore.written, rounds.keep)
        shutil.rmtree(restore.home)
        number += 1
        print(f"restore {number} is whole after {killed} kills", flush=True)
        if killed == rounds.kills:
            break
    print(
        f"{rounds.records:,} records into {rounds.into}, {killed} kills, {number} restores: each "
        f"once, byte for byte; {time.monotonic() - begun_s:.0f} s"
    )


def plan_of(seed: int, records: int) -> RecordPlan:
    """The records that are written, archived and restored."""
    every = max(records // (12 * _ABORTED_PER_PARTITION), 1)
    return RecordPlan(seed, records, aborted_every=every)


def _archived(plan: RecordPlan, home: Path) -> ArchiveCommand:
    broker = BrokerProcess(home / "broker" / "data")
    broker.start()
    create_topics(broker.bootstrap)
    PlanWriter(broker.bootstrap, plan).write(1.0)
    broker.stop()
    return _archive_of(broker.data, home, plan)


def _archive_of(data: Path, home: Path, plan: RecordPlan) -> ArchiveCommand:
    batch_records = min(plan.records, _BATCH_RECORDS)
    command = ArchiveCommand(("--data", str(data)), TOPICS, home, batch_records)
    process = command.start()
    assert process.wait(_RUN_TIMEOUT_S) == 0, process.said()[-3000:]
    return command


class _Restore:
    """One restore, in as many runs as it takes."""

    def __init__(self, rounds: RestoreRounds, archived: ArchiveCommand, home: Path) -> None:
        self.home = home
        self.rounds = rounds
        self._archived = archived
        home.mkdir()
        self.data = home / "data"
        self.checkpoint = home / "checkpoint"
        self._broker = BrokerProcess(home / "broker" / "data")

    @property
    def is_into_data(self) -> bool:
        """Whether it makes a data directory."""
        return self.rounds.into == "data"

    @contextmanager
    def target(self) -> Iterator[None]:
        """A broker runs meanwhile, where there are topics to write."""
        if self.is_into_data:
            yield
            return
        self._broker.start()
        try:
            yield
        finally:
            self._broker.stop()

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address of a broker that has what was restored."""
        if not self.is_into_data:
            yield self._broker.bootstrap
            return
        broker = BrokerProcess(self.data)
        broker.start()
        try:
            yield broker.bootstrap
        finally:
            broker.stop()

    def is_killed(self, draw: random.Random) -> bool:
        """Run, and kill the run at a drawn moment; False where it came to its end before."""
        shutil.rmtree(self.checkpoint / "board", ignore_errors=True)  # what the last run has done
        process = self._start(("--max-rate", self.rounds.rate))
        if self.is_into_data and draw.random() < 0.3 and not self._is_finishing():
            process.wait_until(self._is_finishing, _RUN_TIMEOUT_S)
            process.wait_until(lambda: False, draw.choice((0.0, 0.005, 0.02)))
        else:
            process.wait_until(self._is_at_work, draw.uniform(0.2, _START_S))
            process.wait_until(lambda: False, draw.uniform(0, _RESTORE_S / 4))
        if process.has_ended():
            assert process.wait(1) == 0, process.said()[-3000:]
            return False
        process.kill_all()
        left = process.leftovers(_END_S)
        assert not left, f"{left} went on without the driver"
        return True

    def run_to_the_end(self) -> None:
        """The last run."""
        process = self._start(())
        code = process.wait(_RUN_TIMEOUT_S)
        assert code == 0, f"the last run ended with {code}: {process.said()[-3000:]}"
        assert "Traceback" not in process.said(), process.said()[-3000:]

    def how_far(self) -> str:
        """Return what is there, for a person."""
        if not self.is_into_data:
            lines = [path.read_text().count("\n") for path in self._maps().glob("*.jsonl")]
            return f"{sum(lines)} transactions in {len(lines)} partitions"
        folder = self.data / "kbroker-restore"
        whole = len(list(folder.glob("*/kbroker-restored.json")))
        begun = len(list(folder.glob("*-*")))
        return f"{whole} of {begun} logs whole, {len(list(self.data.glob('*-*[0-9]')))} placed"

    @property
    def written(self) -> Path:
        """The data directory that holds what was restored."""
        return self.data if self.is_into_data else self._broker.data

    def mapped(self, partition: Partition) -> dict[int, int]:
        """Where the map says that the records of a partition are, by their offsets in the archive."""
        path = self._maps() / f"{partition[0]}-{partition[1]}.jsonl"
        lines = map(json.loads, path.read_text().splitlines())
        found: dict[int, int] = {}
        for source, target, records in (each for line in lines for each in line["runs"]):
            found |= {source + n: target + n for n in range(records)}
        return found

    def _maps(self) -> Path:
        return self.checkpoint / "offsets"

    def _is_at_work(self) -> bool:
        return any((self.checkpoint / "board").glob("*-*"))

    def _is_finishing(self) -> bool:
        return (self.data / "kbroker-tree.journal").exists()

    def _start(self, more: tuple[str, ...]) -> ArchiveProcess:
        target = (
            ("--data", str(self.data))
            if self.is_into_data
            else ("--bootstrap", self._broker.bootstrap, "--setting", "retention.ms=-1")
        )
        spark = (
            "--master", "local[2]", "--spark-conf", "spark.driver.memory=1g",
            "--spark-conf", f"spark.local.dir={self.home / 'spark'}",
        )  # fmt: skip
        command = [
            sys.executable, "-m", "kbroker.cli", "pipeline", "restore",
            "--archive", str(self._archived.archive), *target,
            "--checkpoint", str(self.checkpoint), *more, *(spark if self.rounds.spark else ()),
        ]  # fmt: skip
        return ArchiveProcess(command, self._archived)


def _check(restore: _Restore, plan: RecordPlan) -> None:
    with restore.served() as bootstrap:
        for topic, number in plan.partitions():
            if restore.is_into_data:
                check_partition(bootstrap, plan, topic, number)
                continue
            offsets = check_partition(bootstrap, plan, topic, number, at_its_offsets=False)
            map_ = dict(zip(map(plan.offset_of, range(len(offsets))), offsets, strict=True))
            assert restore.mapped((topic, number)) == map_, f"{topic}-{number}: map"


def check_partition(
    bootstrap: str, plan: RecordPlan, topic: str, number: int, *, at_its_offsets: bool = True
) -> list[int]:
    """The offsets of a partition's committed records; AssertionError unless these are the plan's."""
    offsets: list[int] = []
    found = EnvelopeHash()
    for message in _messages(bootstrap, topic, number):
        place = message.offset() if at_its_offsets else plan.offset_of(len(offsets))
        found.add(_record(message, place))
        offsets.append(message.offset() or 0)
    count = plan.count(topic, number)
    assert len(offsets) == count, f"{topic}-{number}: {len(offsets)} records, not {count}"
    assert found.hexdigest() == planned_hash(plan, topic, number), f"{topic}-{number}"
    return offsets


def _check_once_more(restore: _Restore, plan: RecordPlan) -> None:
    """Archive what was restored: the same records come out, of a directory at the same offsets."""
    home = restore.home / "again"
    home.mkdir()
    again = _archive_of(restore.written, home, plan)
    found = check_archive(again.archive, plan, at_its_offsets=restore.is_into_data)
    print(f"archived once more: {len(found.files)} files, the same records", flush=True)


def _record(message: Message, offset: int | None) -> PlannedRecord:
    kind, time_ms = message.timestamp()
    headers = message.headers()
    return PlannedRecord(
        offset or 0,
        time_ms,
        kind - 1,  # as brokers write it
        message.key(),
        message.value(),
        tuple(headers) if headers else None,  # type: ignore[arg-type]
    )


def _messages(bootstrap: str, topic: str, partition: int) -> Iterator[Message]:
    """All committed records of a partition."""
    settings: dict[str, str | int | float | bool | None] = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(60)
            assert message is not None, f"no end of {topic}-{partition}"
            error = message.error()
            if error is None:
                yield message
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            return


def main() -> None:
    """Parse the options and run; what was written stays where a fault was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--into", choices=("topics", "data"), default="data")
    parser.add_argument("--spark", action="store_true", help="spread the work over Spark")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="of the last data directory")
    rounds = RestoreRounds(**vars(parser.parse_args()))
    with hunt_home("restore-rounds") as home:
        run(rounds, home)


if __name__ == "__main__":
    main()
