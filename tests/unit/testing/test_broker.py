"""What a child says, read by who started it."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.testing import Broker, BrokerError
from kbroker.testing.broker import addresses_in, sentence_in


def test_addresses_are_what_ready_lines_say() -> None:
    lines = ["listening on 127.0.0.1:9092\n", "hello\n", "listening on [::1]:9093\n"]

    assert list(addresses_in(lines)) == ["127.0.0.1:9092", "[::1]:9093"]


def test_a_line_that_was_cut_off_before_it_was_ready_is_no_address() -> None:
    assert list(addresses_in(["listen"])) == []


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("Error: the port is taken\n", "the port is taken"),
        ("warning: unknown setting x\nError: the port is taken\n", "the port is taken"),
        ("Usage: kbroker start\n\nError: no such option\n", "no such option"),
        ("kbroker would adopt 1 topic\n", "kbroker would adopt 1 topic"),
        ("Traceback:\n  line\nValueError: x\n", "Traceback:\n  line\nValueError: x"),
        ("", ""),
    ],
)
def test_the_reason_of_a_failure_is_the_brokers_own_sentence(said: str, sentence: str) -> None:
    assert sentence_in(said) == sentence


def test_a_broker_that_was_not_started_has_no_address() -> None:
    with pytest.raises(BrokerError, match="not running"):
        _ = Broker().bootstrap


def test_a_broker_that_was_not_started_can_be_stopped() -> None:
    Broker().stop()


def test_secrets_are_no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def popen(arguments: list[str], **options: Any) -> None:
        given.update(options, arguments=" ".join(arguments))
        raise OSError("not started")

    monkeypatch.setattr("subprocess.Popen", popen)
    with pytest.raises(OSError, match="not started"):
        Broker(settings={"sasl.jaas.config": "hush", "num.partitions": 3}).start()

    assert "num.partitions=3" in given["arguments"]
    assert "hush" not in given["arguments"]
    assert "hush" in given["env"].values()
