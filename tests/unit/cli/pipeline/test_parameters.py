"""Durations, lists of names and pairs as people write them."""

from __future__ import annotations

import click
import pytest

from kbroker.cli.pipeline.parameters import directory, duration, names, pair


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("1.5m", 90), ("2h", 7_200), ("1d", 86_400)]
)
def test_a_duration_is_in_seconds(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "0s", "1 week"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration such as"):
        duration(text)


def test_names_may_be_a_text_or_a_list() -> None:
    assert names(" a, b,,c ") == names(["a", "b", "c"]) == ("a", "b", "c")


def test_an_address_of_a_store_is_no_directory() -> None:
    assert directory("./a:b/c") == "./a:b/c"
    with pytest.raises(click.BadParameter, match="is an address: give a directory of a disk"):
        directory("s3://bucket/archive")


def test_the_value_of_a_pair_may_have_the_sign_too() -> None:
    assert pair("spark.x=a=b") == ("spark.x", "a=b")
    assert pair("spark.x=") == ("spark.x", "")


@pytest.mark.parametrize("text", ["spark.x", "=3"])
def test_other_texts_are_no_pairs(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not KEY=VALUE"):
        pair(text)
