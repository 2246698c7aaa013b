"""Lists of names and pairs as people write them."""

from __future__ import annotations

import click
import pytest

from kbroker.cli.pipeline.parameters import directory, names, pair


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
