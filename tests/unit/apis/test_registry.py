from __future__ import annotations

import subprocess
import sys

import pytest

from kbroker.apis import registry
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.schema import message


def test_load_finds_the_handlers_by_key_in_rising_order() -> None:
    apis = registry.registered()
    assert list(apis) == sorted(apis)
    assert apis[18].request_class is ApiVersionsRequest
    assert apis[18].name == "ApiVersions"


def test_a_handler_is_imported_at_the_first_request_for_it() -> None:
    program = (
        "import sys; from kbroker.server.broker.kafka_server import KafkaServer; "
        "from kbroker.apis.registry import registered; "
        "names = {f'kbroker.apis.{m}' for m in ('produce', 'fetch', 'join_group')}; "
        "known, listed = list(registered()), registered().listed(); "
        "assert not names & sys.modules.keys(); "
        "assert [entry.key for entry in listed] == known; registered()[1]; "
        "assert names & sys.modules.keys() == {'kbroker.apis.fetch'}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "asked",
    [
        "registered()[18]",
        "registered().listed()",
        "registered().imported(lambda: __import__('kbroker.quotas.rate'))",
    ],
)
def test_a_kept_descriptor_reads_what_is_left_once_there_is_no_other(asked: str) -> None:
    program = (
        "import os, resource, sys; from kbroker.apis.registry import registered; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); "
        "apis = registered(); apis.keep_descriptor(['kbroker.quotas.rate']); taken = []\n"
        "while True:\n"
        "    try: taken.append(os.open(os.devnull, os.O_RDONLY))\n"
        "    except OSError: break\n"
        f"{asked}; assert 'kbroker.quotas.rate' in sys.modules; "
        "loaded = len([apis[key] for key in apis]); print(loaded, len(apis.listed()))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)

    loaded, listed = map(int, done.stdout.split())
    assert loaded == listed == len(registry.registered())


def test_a_key_cannot_be_registered_twice() -> None:
    assert registry.registered()[18].key == 18
    with pytest.raises(ValueError, match="18"):
        registry.api(ApiVersionsRequest)(lambda ctx, request: None)


def test_a_version_that_is_not_declared_cannot_be_served() -> None:
    with pytest.raises(ValueError, match="cannot serve"):
        message(key=9_999, versions="0-4", served="0-99")


def test_a_message_without_a_key_cannot_be_served() -> None:
    with pytest.raises(ValueError, match="no key"):
        registry.api(MessageWithoutKey)(lambda ctx, request: None)


class MessageWithoutKey(HeartbeatRequest):
    spec = HeartbeatRequest.spec._replace(key=None)
