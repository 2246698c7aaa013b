"""Tables of `kbroker top` as lines: columns that fit, rows in order, one line for each."""

from __future__ import annotations

import pytest

from kbroker.cli.shown.fitted_table import columns_of
from kbroker.cli.top.lines import cut, head_line, row_line
from kbroker.cli.top.look import Connections
from kbroker.cli.top.tables import CONNECTIONS, GROUPS, NAME_LEAST, TABLES, TOPICS, Table
from kbroker.cli.top.wanted import Wanted
from tests.unit.cli.top.looks import look

CONNECTION = {
    "client_id": None, "address": "[2001:db8::7]:50732", "software": "apache-kafka-java 4.3.1",
    "apis": {"Fetch": 17, "Heartbeat": 4}, "principal": "User:ANONYMOUS", "listener": "PLAINTEXT", "requests": 12_345_678,
    "bytes_in": 1, "bytes_out": 2, "idle_ms": 9_000_000,
}  # fmt: skip
SEEN = look(
    {"a" * 249: 123_456_789.0, "b": 0.5, "漢字" * 20: 7.0, "__consumer_offsets": 1.0},
    lags={"billing": 123_456_789, "kbroker-mirror-x": 1},
    connections=Connections([CONNECTION], ()),
)


@pytest.mark.parametrize("width", [20, 40, 79, 80, 120, 300])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_heads_and_rows_are_as_wide_as_the_terminal(table: Table, width: int) -> None:
    rows = Wanted(has_internal=True).rows(SEEN, table)
    assert rows

    lines = [head_line(table, width, 1, is_reversed=False)]
    lines += [row_line(table, row, width) for row in rows]

    assert {columns_of(line) for line in lines} == {width}


def test_every_column_has_room_for_its_head_and_the_mark_of_its_order() -> None:
    columns = [column for table in TABLES for column in table.columns]

    assert [each.head for each in columns if each.width <= len(each.head)] == []


def test_at_80_columns_names_have_room_and_what_matters_is_there() -> None:
    beside_the_bar = 79
    heads = [[column.head for column in table.visible(beside_the_bar)] for table in TABLES]

    assert heads == [
        ["TOPIC", "RECORDS/S", "BYTES/S", "SIZE", "PARTS", "STATE"],
        ["GROUP", "LAG", "CATCHES UP", "READ/S", "MEMBERS", "STATE"],
        ["BROKER", "RECORDS/S", "BYTES/S", "SIZE", "LEADERS", "STATE"],
        ["CLIENT", "REQUESTS", "IDLE", "ADDRESS", "SOFTWARE"],
    ]
    assert NAME_LEAST >= 20


def test_rows_come_from_the_largest_on_and_those_without_a_figure_last() -> None:
    rows = look({"slow": 1.0, "quick": 9.0, "retained": -5.0}).topics

    down = TOPICS.ordered(rows, 1, is_reversed=False)
    up = TOPICS.ordered(rows, 1, is_reversed=True)
    by_name = TOPICS.ordered(rows, 0, is_reversed=False)

    assert [row.topic.name for row in down] == ["quick", "slow", "retained"]
    assert [row.topic.name for row in up] == ["slow", "quick", "retained"]
    assert [row.topic.name for row in by_name] == ["quick", "retained", "slow"]


def test_internal_topics_and_groups_of_jobs_are_shown_if_wanted() -> None:
    names = [
        [table.name_of(row) for row in Wanted().rows(SEEN, table)] for table in (TOPICS, GROUPS)
    ]

    assert "__consumer_offsets" not in names[0]
    assert names[1] == ["billing"]
    assert [table.title for table, _ in Wanted().tables(SEEN)] == [each.title for each in TABLES]


def test_a_filter_holds_for_names_whatever_their_case() -> None:
    rows = Wanted(text="B").rows(SEEN, TOPICS)

    assert [row.topic.name for row in rows] == ["b"]
    assert len(Wanted(text="").rows(SEEN, CONNECTIONS)) == 1


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 4, "abc…"),
        ("漢字漢字", 5, "漢字…"),
        ("漢字", 3, "漢…"),
        ("x", 0, ""),
    ],
)
def test_a_text_is_cut_or_filled_up(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown
