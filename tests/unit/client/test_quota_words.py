"""Words of quotas, as commands and tests of users give them."""

from __future__ import annotations

import pytest

from kbroker.client.quota_words import (
    QuotaWordError,
    entity_of,
    entity_words,
    keys_in,
    values_in,
    wish_in,
)

ANN: dict[str, str | None] = {"user": "ann"}
HOME: dict[str, str | None] = {"ip": "10.0.0.1"}


@pytest.mark.parametrize(("word", "key", "value"), [
    ("producer=1MB/s", "producer_byte_rate", 1024**2),
    ("consumer=2kB", "consumer_byte_rate", 2048),
    ("producer=1.5GB/s", "producer_byte_rate", 3 * 2**29),
    ("producer=100KB/s", "producer_byte_rate", 102400),
    ("producer=100 KiB/s", "producer_byte_rate", 102400),
    ("producer=100B", "producer_byte_rate", 100),
    ("producer_byte_rate=1048576", "producer_byte_rate", 1048576),
    ("request=50%", "request_percentage", 50.0),
    ("request_percentage=12.5", "request_percentage", 12.5),
    ("mutations=.5/s", "controller_mutation_rate", 0.5),
    ("mutations=0", "controller_mutation_rate", 0.0),
])  # fmt: skip
def test_limits_have_units(word: str, key: str, value: float) -> None:
    assert values_in([word], ANN) == {key: value}


@pytest.mark.parametrize(("words", "entity", "told"), [
    (["producer"], ANN, "'producer' is not KEY=VALUE, such as producer=1MB/s"),
    (["=5"], ANN, "'=5' is not KEY=VALUE, such as producer=1MB/s"),
    (["producer=fast"], ANN,
     "producer_byte_rate=fast: give bytes in a second, such as 1048576 or 1MB/s"),
    (["producer=-1"], ANN,
     "producer_byte_rate=-1: give bytes in a second, such as 1048576 or 1MB/s"),
    (["producer=0.5"], ANN,
     "producer_byte_rate=0.5: give bytes in a second, such as 1048576 or 1MB/s"),
    (["producer=1e308"], ANN,
     "producer_byte_rate=1e308: give bytes in a second, such as 1048576 or 1MB/s"),
    (["request=nan"], ANN, "request_percentage=nan: give a percentage, such as 50%"),
    (["mutations=1MB"], ANN,
     "controller_mutation_rate=1MB: give a number in a second, such as 10/s"),
    (["produce=1"], ANN, "no such quota: produce, did you mean producer?"),
    (["x=1"], ANN, "no such quota: x (there is producer, consumer, request, mutations)"),
    (["connections=1"], ANN, "user ann cannot have connection_creation_rate: there is producer, "
     "consumer, request, mutations"),
    (["producer=1"], HOME, "ip 10.0.0.1 cannot have producer_byte_rate: there is connections"),
    (["connections=1.5"], HOME,
     "connection_creation_rate=1.5: give a number in a second, such as 10/s"),
    (["producer=1", "producer_byte_rate=2"], ANN, "producer_byte_rate is given twice"),
])  # fmt: skip
def test_wrong_limits_are_named(words: list[str], entity: dict[str, str | None], told: str) -> None:
    with pytest.raises(QuotaWordError) as caught:
        values_in(words, entity)
    assert str(caught.value) == told


def test_keys_are_short_or_kafkas() -> None:
    words = ["producer", "producer_byte_rate", "request"]
    assert keys_in(words, ANN) == ["producer_byte_rate", "request_percentage"]
    assert keys_in(["connections"], {"ip": None}) == ["connection_creation_rate"]


def test_an_entity_has_names_and_defaults_in_kafkas_order() -> None:
    assert entity_of([("client-id", "app")], ["user"]) == {"user": None, "client-id": "app"}
    assert list(entity_of([("client-id", "app"), ("user", "ann")])) == ["user", "client-id"]
    assert entity_words({"user": None, "client-id": "app"}) == "default user, client-id app"


@pytest.mark.parametrize(("given", "defaults", "told"), [
    ([], [], "say whose quotas: give --user, --client-id or --ip, or --default for all others"),
    ([("user", "ann")], ["user"], "--user is given twice"),
    ([("ip", "10.0.0.1"), ("user", "ann")], [], "--ip goes with neither --user nor --client-id"),
    ([], ["ip", "user"], "--ip goes with neither --user nor --client-id"),
    ([("user", "")], [], "a name is empty: --default means all others"),
])  # fmt: skip
def test_wrong_entities_are_named(
    given: list[tuple[str, str]], defaults: list[str], told: str
) -> None:
    with pytest.raises(QuotaWordError) as caught:
        entity_of(given, defaults)
    assert str(caught.value) == told


def test_a_line_has_the_words_of_the_command() -> None:
    wish = wish_in("--user 'ann b' --client-id=app producer=1kB/s request=5%")
    assert wish.entity == {"user": "ann b", "client-id": "app"}
    assert wish.values == {"producer_byte_rate": 1024, "request_percentage": 5.0}
    assert wish_in("connections=3 --default ip").entity == {"ip": None}


@pytest.mark.parametrize(("line", "told"), [
    ("--user ann", "no limit is given, such as producer=1MB/s"),
    ("producer=1", "say whose quotas: "),
    ("--user", "--user needs a value"),
    ("--default all producer=1", "--default all: it is for user, client-id, ip"),
    ("--user 'ann producer=1", "No closing quotation"),
    ("--users ann producer=1", "no such option: --users"),
])  # fmt: skip
def test_wrong_lines_are_named(line: str, told: str) -> None:
    with pytest.raises(QuotaWordError) as caught:
        wish_in(line)
    assert str(caught.value).startswith(f"{line!r} is not a quota: {told}")
