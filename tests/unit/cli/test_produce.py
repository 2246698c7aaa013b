"""`kbroker produce` looks at the first line before it has a topic made for it."""

from __future__ import annotations

import os
import sys

import pytest

from kbroker.cli import produce as module
from kbroker.cli.connection import CommandError
from kbroker.client.client_error import ClientError

MADE = "the topic was made"


class NoTopic:
    """A cluster without the topic; the test ends where it would be made."""

    def __init__(self, _bootstrap: str) -> None:
        pass

    def ready_topic(self, _name: str, *, creates: bool = False) -> None:
        if creates:
            raise ClientError(MADE)

    def close(self) -> None:
        pass


def end_of(monkeypatch: pytest.MonkeyPatch, given: bytes, *options: str) -> str:
    """Produce these lines, and return the sentence that ends it."""
    monkeypatch.setattr(module, "ClusterLinks", NoTopic)
    theirs, ours = os.pipe()
    os.write(ours, given)
    os.close(ours)
    with open(theirs, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(CommandError) as ended:
            module.produce.main(["orders", *options], standalone_mode=False)
    return ended.value.message


@pytest.mark.parametrize(
    ("options", "given", "reason"),
    [
        (("--input", "jsonl"), b'{"valu": 1}\n{"value": "v"}\n', "line 1: there is no field"),
        (("--input", "jsonl"), b'\n  \n{"value": 1}\n', "line 3: its value cannot be written"),
        (("--input", "jsonl"), b"no end of line", "line 1: it is not JSON"),
        (
            ("--input", "jsonl"),
            b'{"value": "v", "partition": -1}\n',
            'line 1: there is no partition -1 (a row without "partition" goes by its key)',
        ),
        (("--key-separator", ":"), b"kv\nk:v\n", "line 1: it has no key separator ':'"),
    ],
)
def test_no_topic_is_made_for_a_first_line_that_is_not_a_record(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], given: bytes, reason: str
) -> None:
    said = end_of(monkeypatch, given, *options)

    assert said.startswith(reason)
    assert said.endswith("; no record was written (--keep-going skips such lines)")


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ((), b"anything\n"),
        ((), b""),
        (("--input", "jsonl"), b""),
        (("--input", "jsonl"), b"\n\n"),
        (("--input", "jsonl"), b'{"value": "v", "key": "k"}\nbad\n'),
        (("--input", "jsonl"), b'{"value": "v", "partition": 7}\n'),
        (("--input", "jsonl", "--keep-going"), b"bad\n"),
        (("--key-separator", ":"), b"k:v\nbad\n"),
    ],
)
def test_a_topic_is_made_for_a_first_line_that_may_be_a_record(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], given: bytes
) -> None:
    assert end_of(monkeypatch, given, *options) == MADE
