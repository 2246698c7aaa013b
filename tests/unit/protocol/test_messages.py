from __future__ import annotations

from itertools import pairwise

from kbroker.protocol.messages import all_messages
from kbroker.protocol.schema import response_class

ZOOKEEPER_MODE_KEYS = [4, 5, 6, 7, 56, 58, 67]
CLIENT_KEYS = [0, 1, 2, 3, *range(8, 17), *range(18, 24), 32, 33, 35, 37, 42, 43, 44, 60]


def test_messages_come_by_key_each_request_before_its_response() -> None:
    messages = all_messages()

    assert [cls.spec.key for cls in messages[::2]] == sorted(ZOOKEEPER_MODE_KEYS + CLIENT_KEYS)
    assert [response_class(request) for request in messages[::2]] == messages[1::2]


def test_request_and_response_describe_the_same_versions() -> None:
    messages = all_messages()
    pairs = [pair for pair in pairwise(messages) if pair[0].spec.key == pair[1].spec.key]

    assert [(a.spec.versions, a.spec.flexible) for a, _ in pairs] == [
        (b.spec.versions, b.spec.flexible) for _, b in pairs
    ]
