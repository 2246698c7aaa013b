"""What Apache Kafka makes of the batches of `payload_cases`: `python -m tests.golden.payloads` asks
3.9.2 and 4.3.1 and writes `payloads.tsv`.

An answer is `N records CRC`, of all keys and values, or the exception.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from compat_tests.clients.every_client import run
from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.running import apache_kafka
from kbroker.record.default_record import Record
from tests.golden.payload_cases import cases

VERSIONS = (apache_kafka.ZOOKEEPER_LINE, apache_kafka.NEWEST)
PATH = Path(__file__).with_name("payloads.tsv")


class Answers(NamedTuple):
    """Of the broker that a producer sends a batch to, and of a consumer that reads it."""

    broker: str
    consumer: str

    @property
    def is_read(self) -> bool:
        """Whether both read it."""
        return all(" records " in answer for answer in self)


def told(records: Iterable[Record]) -> str:
    """These records as Java's answers tell them."""
    count = crc = 0
    for record in records:
        count += 1
        crc = zlib.crc32(record.value or b"", zlib.crc32(record.key or b"", crc))
    return f"{count} records {crc:x}"


def ask(version: str, batches: list[bytes]) -> list[Answers]:
    """Ask Apache Kafka of that version for its answer to each."""
    classes = kept_classes("PayloadReader", version)
    given = "".join(f"{batch.hex()}\n" for batch in batches).encode()
    printed = run(java_command(classes, version, "PayloadReader"), given)
    return [Answers(*line.split("\t")) for line in printed.decode().splitlines()]


def recorded() -> dict[str, tuple[Answers, ...]]:
    """The answers of `VERSIONS` by case, as `payloads.tsv` has them."""
    found = {}
    for line in PATH.read_text().splitlines()[1:]:
        name, *answers = line.split("\t")
        found[name] = tuple(Answers(*answers[at : at + 2]) for at in range(0, len(answers), 2))
    return found


def record() -> None:
    """Ask, and write the table."""
    given = dict(cases())
    answers = [ask(version, list(given.values())) for version in VERSIONS]
    rows = ["\t".join(["case", *(f"{v} {side}" for v in VERSIONS for side in Answers._fields)])]
    for name, *all_told in zip(given, *answers, strict=True):
        rows.append("\t".join([name, *(side for each in all_told for side in each)]))
    PATH.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    record()
