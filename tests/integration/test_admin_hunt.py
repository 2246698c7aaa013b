"""What kbroker answers to more than a thousand questions of administration, held against what Apache
Kafka answered; `admin_hunt` asks them all in every version, and Apache Kafka anew.
"""

from __future__ import annotations

import copy

import pytest

from tests.integration.admin_hunt import Answers, Peer, collect, compare, kbroker, load


def asked(apache: tuple[Answers, Answers]) -> set[tuple[str, int]]:
    """Return the questions that either of them answered."""
    return {*apache[0], *apache[1]}


@pytest.fixture(scope="module")
def apache() -> tuple[Answers, Answers]:
    return load()


@pytest.fixture(scope="module")
def here(apache: tuple[Answers, Answers], tmp_path_factory: pytest.TempPathFactory) -> Answers:
    broker = kbroker(tmp_path_factory.mktemp("admin") / "data")
    broker.start()
    try:
        return collect(Peer(broker.bootstrap), asked=asked(apache))
    finally:
        broker.stop()
        assert "Traceback" not in broker.log_text()


def test_answers_are_those_of_apache_kafka(here: Answers, apache: tuple[Answers, Answers]) -> None:
    assert here.keys() == asked(apache)

    assert compare(here, apache) == []


@pytest.mark.parametrize("name", ["create: slash", "describe: topic", "alter: list, append"])
def test_another_answer_would_be_noticed(
    here: Answers, apache: tuple[Answers, Answers], name: str
) -> None:
    changed = copy.deepcopy(here)
    asked = next(each for each in changed if each[0] == name)
    entry = next(iter(changed[asked][0].values()))[0]
    entry["error_code"] = 55

    (noticed,) = compare(changed, apache)

    assert noticed.startswith(f"{name}, version {asked[1]}: ")
