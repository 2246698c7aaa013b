"""Filters of messages: what fits, and what is malformed."""

from __future__ import annotations

import pytest

from kbroker.console.message_filter import EVERYTHING, message_filter
from kbroker.console.message_form import MessageForm
from kbroker.coordinator.group.records import offset_commit_key
from kbroker.model import GROUP_METADATA_TOPIC
from kbroker.record.default_record import Record

PLAIN = MessageForm("orders")
RECORD = Record(
    5,
    1_000,
    b"customer-7",
    b'{"total": 12, "who": "ann"}',
    (("trace", b"abc-1"), ("empty", None), ("bin\udcff", b"\xff")),
)
BINARY = Record(6, 1_000, b"\0\0\0\x2a", None, ())


def test_without_a_filter_everything_fits() -> None:
    assert message_filter() == EVERYTHING
    assert EVERYTHING.is_empty
    assert EVERYTHING.fits(BINARY, PLAIN)


@pytest.mark.parametrize(
    "asked",
    [
        {"text": "ann"},
        {"text": "customer"},
        {"text": "abc"},
        {"text": "trace"},
        {"key": "mer-7"},
        {"header": "trace"},
        {"header": "empty"},
        {"header": "trace=bc"},
        {"header": "empty="},
        {"json_path": "$.total > 10"},
        {"text": "ann", "key": "7", "header": "trace", "json_path": "$.who"},
    ],
)
def test_a_message_fits(asked: dict[str, str]) -> None:
    assert message_filter(**asked).fits(RECORD, PLAIN)


@pytest.mark.parametrize(
    "asked",
    [
        {"text": "Ann"},
        {"key": "ann"},
        {"header": "trac"},
        {"header": "trace=z"},
        {"json_path": "$.total > 12"},
        {"text": "ann", "key": "8"},
    ],
)
def test_a_message_does_not_fit(asked: dict[str, str]) -> None:
    assert not message_filter(**asked).fits(RECORD, PLAIN)


def test_null_and_other_bytes_never_fit_a_condition_on_json() -> None:
    wanted = message_filter(json_path="$")

    assert not wanted.fits(BINARY, PLAIN)
    assert not wanted.fits(RECORD._replace(value=b"{"), PLAIN)
    assert not wanted.fits(RECORD._replace(value=b"[" * 100_000), PLAIN)


def test_a_chosen_decoder_says_what_a_text_is_looked_for_in() -> None:
    numbers = MessageForm("orders", key_decoder="int")

    assert message_filter(key="42").fits(BINARY, numbers)
    assert not message_filter(key="42").fits(BINARY, PLAIN)
    assert message_filter(key="customer").fits(RECORD, numbers)


def test_records_of_kafkas_own_topics_are_searched_as_they_are_shown() -> None:
    form = MessageForm(GROUP_METADATA_TOPIC)
    record = Record(0, 1_000, offset_commit_key("readers", "orders", 3), None, ())

    assert message_filter(key='"partition": 3').fits(record, form)
    assert message_filter(text="orders").fits(record, form)
    assert not message_filter(text="payments").fits(record, form)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"header": "=x"}, "names no header"),
        ({"text": "x" * 10_001}, "at most 10,000 letters"),
        ({"key": "\ud800"}, "half a character"),
        ({"json_path": "total"}, "does not begin with"),
    ],
)
def test_a_malformed_filter_is_refused_with_a_sentence(asked: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        message_filter(**asked)
