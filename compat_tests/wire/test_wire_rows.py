"""Every question of rows.tsv has a test here or a sequence in `compat_tests/transactions`.

The questions were put to Apache Kafka 3.9.2 (ZooKeeper) and 4.3.1 (KRaft); their numbers are those
of the full table of answers. kbroker follows 3.9.2 where both work, and 4.3.1 where 3.9.2 refuses
something useful.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from compat_tests.transactions.script import all_sequences

HERE = Path(__file__).parent


def rows_of(module: Path) -> set[int]:
    """Numbers given to `@pytest.mark.row` in a test file."""
    marks = [
        line for line in module.read_text().splitlines() if line.startswith("@pytest.mark.row(")
    ]
    return {int(number) for mark in marks for number in mark[17:-1].split(",")}


@pytest.fixture(scope="module")
def tested() -> set[int]:
    marked = (rows_of(module) for module in HERE.glob("test_wire_*.py"))
    return set().union(*marked, *(sequence.rows for sequence in all_sequences()))


@pytest.fixture(scope="module")
def questions() -> dict[int, str]:
    with (HERE / "rows.tsv").open(newline="") as table:
        return {
            int(row["nr"]): row["question"]
            for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        }


def test_every_question_is_tested_and_what_is_tested_is_a_question(
    questions: dict[int, str], tested: set[int]
) -> None:
    assert {nr: text for nr, text in questions.items() if nr not in tested} == {}
    assert tested == questions.keys()
